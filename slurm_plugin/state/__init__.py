"""What outlives the controller: the journal, the ledger in it, and the owner of the folder."""
