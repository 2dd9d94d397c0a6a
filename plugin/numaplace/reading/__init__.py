"""Text files of users: nodes that know their line, kinds of value, readers that collect every problem."""
