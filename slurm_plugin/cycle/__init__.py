"""One cycle as four stages: observe, decide, act, publish. Each takes the CycleContext from the stage before it."""
