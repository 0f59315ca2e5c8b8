"""What every route of the API shares: who calls, what may be sent, how a refusal and a page of a list look."""
