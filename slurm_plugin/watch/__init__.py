"""What `tiresias status --watch` is made of: keys, what they change, which jobs are listed, and the terminal itself."""
