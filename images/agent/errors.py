"""What can go wrong on a node, as sentences that the head node shows."""


class AgentError(Exception):
    """Something could not be done; the text is the reason as a person reads it."""


class Refused(AgentError):
    """The head node answered, and the answer is no. Asking again would not help."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class BadPlan(AgentError):
    """The plan asks for something that this agent does not do; nothing of it was carried out."""


class StepFailed(AgentError):
    """A step of the plan failed."""
