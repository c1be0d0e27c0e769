"""What agents, aggregators and the manager send to each other: frames, messages and the keyed handshake."""
