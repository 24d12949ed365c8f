package members

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
)

// mostKnocks bounds the connections that one turn of the clock attempts: while nobody can write, everybody is silent.
const mostKnocks = 8

// refusing returns those of the silent members at whose address nobody listens. A killed process leaves a host that refuses
// connections; one that is stopped, busy or cut off does not refuse, and whether it lives stays a question of time.
func (m *Members) refusing(silent []entry) []entry {
	rand.Shuffle(len(silent), func(i, j int) { silent[i], silent[j] = silent[j], silent[i] })
	silent = silent[:min(len(silent), mostKnocks)]
	refused := make([]bool, len(silent))
	ctx, cancel := context.WithTimeout(m.life, m.contact.turn())
	defer cancel()
	var knocking sync.WaitGroup
	for i, e := range silent {
		knocking.Go(func() { refused[i] = refuses(ctx, e.member.GetAddress()) })
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

// refuses reports whether a host answers that nobody listens there.
func refuses(ctx context.Context, address string) bool {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err == nil {
		err = conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
