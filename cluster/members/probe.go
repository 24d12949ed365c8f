package members

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
)

// maxProbes bounds the connections that one turn of the clock attempts: while nobody can write, everybody is silent.
const maxProbes = 8

// probeRefused returns those of the silent members at whose address nobody listens. A killed process leaves a host that connectionRefused
// connections; one that is stopped, busy or cut off does not refuse, and whether it lives stays a question of time.
func (m *Members) probeRefused(silent []entry) []entry {
	rand.Shuffle(len(silent), func(i, j int) { silent[i], silent[j] = silent[j], silent[i] })
	silent = silent[:min(len(silent), maxProbes)]
	refused := make([]bool, len(silent))
	ctx, cancel := context.WithTimeout(m.ctx, m.health.tickInterval())
	defer cancel()
	var knocking sync.WaitGroup
	for i, e := range silent {
		knocking.Go(func() { refused[i] = connectionRefused(ctx, e.member.GetAddress()) })
	}
	knocking.Wait()
	var found []entry
	for i, e := range silent {
		if refused[i] {
			found = append(found, e)
		}
	}
	return found
}

// connectionRefused reports whether a host answers that nobody listens there.
func connectionRefused(ctx context.Context, address string) bool {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err == nil {
		err = conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
