package query

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"troupe/actors/supervise"
	"troupe/control"
	"troupe/messages"
)

// TestRetryStale checks that a lookup is retried for retryStaleFor if the object is unknown, and
// not retried after other errors.
func TestRetryStale(t *testing.T) {
	unknown := control.Refuse(messages.Reason_REASON_NOT_FOUND, "no replica m-0")
	invalid := control.Refuse(messages.Reason_REASON_INVALID_ARGUMENT, "no name")
	for name, c := range map[string]struct {
		err   error
		until time.Duration // it fails before this time
		takes time.Duration
		want  error
	}{
		"known":      {},
		"known soon": {err: unknown, until: 200 * time.Millisecond, takes: 200 * time.Millisecond},
		"never":      {err: unknown, until: time.Hour, takes: retryStaleFor, want: unknown},
		"refused":    {err: invalid, until: time.Hour, want: invalid},
		"failed":     {err: errors.ErrUnsupported, until: time.Hour, want: errors.ErrUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				got, err := RetryStale(t.Context(), supervise.System, func() (string, error) {
					if time.Since(began) < c.until {
						return "", c.err
					}
					return "m-0", nil
				})
				if err != c.want || (err == nil) != (got == "m-0") || time.Since(began) != c.takes {
					t.Errorf("%q, %v after %s", got, err, time.Since(began))
				}
			})
		})
	}
}
