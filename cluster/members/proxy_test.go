package members

import (
	"net"
	"sync"
	"testing"
)

// proxy forwards bytes. When it is cut, existing connections stay open but silent, as after a
// network failure. New connections wait until it is healed.
type proxy struct {
	listener net.Listener
	to       string
	running  sync.WaitGroup

	mu     sync.Mutex
	healed sync.Cond
	silent bool
	cuts   int
	conns  []net.Conn
}

func startProxy(t testing.TB, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, to: to}
	p.healed.L = &p.mu
	p.running.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.cut(false)
		p.mu.Lock()
		for _, c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.running.Wait()
	})
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) cut(silent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.silent = silent; silent {
		p.cuts++
	}
	p.healed.Broadcast()
}

func (p *proxy) accept() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.to)
		if err != nil {
			_ = in.Close()
			continue
		}
		p.mu.Lock()
		for p.silent {
			p.healed.Wait()
		}
		p.conns = append(p.conns, in, out)
		born := p.cuts
		p.mu.Unlock()
		p.running.Go(func() { p.pass(in, out, born) })
		p.running.Go(func() { p.pass(out, in, born) })
	}
}

// pass forwards bytes, and discards those that arrive after a cut.
func (p *proxy) pass(from, to net.Conn, born int) {
	defer from.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		p.mu.Lock()
		alive := p.cuts == born
		p.mu.Unlock()
		if !alive {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}
