"""What is looked at before the controller is trusted with a cluster. Each file looks at one side of it and reports findings."""
