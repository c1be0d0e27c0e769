"""The connections of the services: frames, typed messages, the keyed handshake, munge credentials."""
