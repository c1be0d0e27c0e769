"""What outlives the controller: the journal and the ledger in it, who owns the folder, and how it is made again from accounting."""
