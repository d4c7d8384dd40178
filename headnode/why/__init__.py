"""Why a node is not where it should be: a pure engine over one node's timeline and a few facts."""
