package testkit

import "time"

const (
	pollFirst = 2 * time.Millisecond
	pollLast  = 20 * time.Millisecond
	pollLimit = 2 * time.Minute // far more than any state takes, on any machine
)

// PollInterval returns how long to wait before the next poll for a state, after waiting for it so far. A
// poll often asks other goroutines or processes, whose answers cost more than what they do in a long wait.
func PollInterval(waited time.Duration) time.Duration {
	return max(pollFirst, min(waited/16, pollLast))
}

// TB is the part of testing.TB and rapid.TB that Until needs.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Until polls until ok returns true. It is for tests with real sockets, servers, processes or disks,
// which cannot run in a synctest bubble. waits_test.go lists them.
func Until(t TB, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); time.Sleep(PollInterval(time.Since(began))) {
		if time.Since(began) > pollLimit {
			t.Fatalf("not within %s: %s", pollLimit, what)
		}
	}
}
