"""The channel from the daemons of the nodes to the controller: the door of one side, the sender of the other."""
