"""The parameter service: master copies of the parameters of many training jobs on shared CPU nodes (thesis of Gu, chapter IV)."""
