"""What an iteration holds: the messages of each sender, and whether servers or an all-reduce exchange them."""
