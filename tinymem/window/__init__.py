"""The window: the steps that stay in the prompt, and the strategies that choose them."""
