"""From record files to messages: what each process wrote, both ends of each connection joined."""
