package messages

// HTTPStatus returns the HTTP status of a refusal. Errors over NATS carry it too.
func (r Reason) HTTPStatus() int {
	switch r {
	case Reason_REASON_INVALID_ARGUMENT, Reason_REASON_TOO_LONG, Reason_REASON_UNSUPPORTED:
		return 400
	case Reason_REASON_FORBIDDEN:
		return 403
	case Reason_REASON_NOT_FOUND:
		return 404
	case Reason_REASON_ALREADY_EXISTS, Reason_REASON_CONFLICT:
		return 409
	case Reason_REASON_QUEUE_FULL:
		return 429
	case Reason_REASON_CANCELLED:
		return 499
	case Reason_REASON_NO_MEMORY, Reason_REASON_NOT_READY, Reason_REASON_DRAINING, Reason_REASON_LOAD_FAILED,
		Reason_REASON_QUARANTINED, Reason_REASON_STOPPED, Reason_REASON_WEIGHTS_DIFFER, Reason_REASON_NO_QUORUM,
		Reason_REASON_NO_SPACE, Reason_REASON_PREEMPTED, Reason_REASON_FAULTY:
		return 503
	case Reason_REASON_DEADLINE, Reason_REASON_OUTCOME_UNKNOWN:
		return 504
	}
	return 500 // also for REASON_NUMERIC: a retry gives the same result
}
