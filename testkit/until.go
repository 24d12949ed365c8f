package testkit

import "time"

const (
	pollInterval = 2 * time.Millisecond
	pollLimit    = 2 * time.Minute // far more than any state takes, on any machine
)

// TB is the part of testing.TB and rapid.TB that Until needs.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Until polls until ok returns true. It is for tests with real sockets, servers, processes or disks,
// which cannot run in a synctest bubble. waits_test.go lists them.
func Until(t TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(pollLimit); !ok(); time.Sleep(pollInterval) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", pollLimit, what)
		}
	}
}
