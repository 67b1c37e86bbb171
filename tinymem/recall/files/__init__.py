"""Files and commands, as calls of an agent left them: lines that stand there no more, failures that passed later."""
