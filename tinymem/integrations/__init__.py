"""Adapters: a memory for the agent that you already have, one file for each framework.

    from tinymem.integrations.langchain import TinymemMiddleware

Each needs the extra of its name, as `pip install "tinymem-agents[langchain]"`, and is imported only when it is named.
"""
