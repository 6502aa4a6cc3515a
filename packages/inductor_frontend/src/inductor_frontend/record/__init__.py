"""From a functional graph to a recording: what Inductor schedules, as events in program order."""
