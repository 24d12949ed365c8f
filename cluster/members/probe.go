package members

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"

	"troupe/actors/supervise"
)

// maxProbes bounds the connections per tick, because all members look silent while none can renew.
const maxProbes = 8

// probeRefused returns the silent members whose addresses refuse connections. The host of a killed
// process refuses connections. A stopped, busy or disconnected one does not, so only the length of
// its silence can show that it is dead.
func (m *Members) probeRefused(silent []entry) []entry {
	rt := m.cfg.Runtime
	for i := range silent { // shuffle
		j := i + int(rt.Uint64()%uint64(len(silent)-i))
		silent[i], silent[j] = silent[j], silent[i]
	}
	silent = silent[:min(len(silent), maxProbes)]
	refused := make([]bool, len(silent))
	ctx, cancel := rt.WithTimeout(m.ctx, m.health.tickInterval())
	defer cancel()
	var probes sync.WaitGroup
	for i, e := range silent {
		supervise.GoIn(rt, &probes, func() { refused[i] = m.cfg.Refused(ctx, e.member.GetAddress()) })
	}
	probes.Wait()
	var found []entry
	for i, e := range silent {
		if refused[i] {
			found = append(found, e)
		}
	}
	return found
}

// connectionRefused reports whether the host refuses a TCP connection to the address.
func connectionRefused(ctx context.Context, address string) bool {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err == nil {
		err = conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
