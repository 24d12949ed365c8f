// Package bulkbench compares the data plane's throughput with that of a bare TCP or TLS connection.
package bulkbench

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"
	"time"

	"troupe/cluster/bulk"
)

// Config describes a measurement.
type Config struct {
	ChunkBytes int
	Chunks     int         // per round
	Rounds     int         // of each side, alternating; plus one warm-up round each
	Server     *tls.Config // nil means plain TCP
	Client     *tls.Config
	// Copy, if set, replaces the data plane's copy. It must move the same number of bytes.
	Copy func(ctx context.Context) error
}

// Result holds medians over the rounds.
type Result struct {
	Bulk, Bare       float64 // bytes per second
	Ratio            float64 // Bulk over Bare within a round
	BulkCPU, BareCPU float64 // CPU seconds per 1e9 bytes, sender and receiver together
}

// slots returns the number of chunks that source and arena each hold: more than the caches, but
// little memory.
func (c Config) slots() int { return max(1, min(c.Chunks, (64<<20)/c.ChunkBytes)) }

// Measure copies chunks over loopback, alternating between the data plane and a bare connection.
// Both receivers copy each chunk into an arena. The bare sender writes from the chunks' memory, and
// its receiver verifies nothing.
func Measure(ctx context.Context, cfg Config) (Result, error) {
	source, arena := make([]byte, cfg.slots()*cfg.ChunkBytes), make([]byte, cfg.slots()*cfg.ChunkBytes)
	for i := range source {
		source[i] = byte(i * i >> 7)
	}
	measured := cfg.Copy
	if measured == nil {
		p, err := newPlanes(cfg, source, arena)
		if err != nil {
			return Result{}, err
		}
		defer p.close()
		measured = p.copy
	}
	b, err := newBare(ctx, cfg, source, arena)
	if err != nil {
		return Result{}, err
	}
	defer b.close()
	var planes, bare, ratios, planesCPU, bareCPU []float64
	for round := range cfg.Rounds + 1 {
		mine, mineCPU, err := speed(cfg, func() error { return measured(ctx) })
		if err != nil {
			return Result{}, err
		}
		other, otherCPU, err := speed(cfg, b.copy)
		if err != nil {
			return Result{}, err
		}
		if round > 0 {
			planes, bare, ratios = append(planes, mine), append(bare, other), append(ratios, mine/other)
			planesCPU, bareCPU = append(planesCPU, mineCPU), append(bareCPU, otherCPU)
		}
	}
	return Result{median(planes), median(bare), median(ratios), median(planesCPU), median(bareCPU)}, nil
}

// speed runs one copy of all chunks and returns bytes per second and CPU seconds per 1e9 bytes.
func speed(cfg Config, copy func() error) (rate, cpu float64, err error) {
	bytes := float64(cfg.Chunks) * float64(cfg.ChunkBytes)
	began, used := time.Now(), cpuTime()
	err = copy()
	return bytes / time.Since(began).Seconds(), (cpuTime() - used).Seconds() / bytes * 1e9, err
}

// cpuTime returns the CPU time that this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func median[T cmp.Ordered](all []T) T {
	s := slices.Sorted(slices.Values(all))
	return s[len(s)/2]
}

// slot returns the memory of a chunk in source or arena.
func (c Config) slot(of []byte, index int) []byte {
	at := index % c.slots() * c.ChunkBytes
	return of[at : at+c.ChunkBytes]
}

// planes are two data planes and the data that one sends to the other.
type planes struct {
	cfg           Config
	from, to      *bulk.Plane
	source, arena []byte
	indices       []uint32
}

func newPlanes(cfg Config, source, arena []byte) (*planes, error) {
	var client func(net.Conn) *tls.Config
	if cfg.Client != nil {
		client = func(net.Conn) *tls.Config { return cfg.Client }
	}
	from, err := bulk.Listen(bulk.Config{ClientTLS: client})
	if err != nil {
		return nil, err
	}
	to, err := bulk.Listen(bulk.Config{ServerTLS: cfg.Server})
	if err != nil {
		from.Close()
		return nil, err
	}
	p := &planes{cfg: cfg, from: from, to: to, source: source, arena: arena}
	for i := range cfg.Chunks {
		p.indices = append(p.indices, uint32(i))
	}
	return p, nil
}

func (p *planes) copy(ctx context.Context) error {
	ticket, err := p.to.Expect(p.cfg.ChunkBytes, uint32(p.cfg.Chunks), func(i uint32, b []byte) error {
		copy(p.cfg.slot(p.arena, int(i)), b)
		return nil
	})
	if err != nil {
		return err
	}
	defer p.to.Drop(ticket)
	return p.from.SendInPlace(ctx, ticket, p.indices, func(i uint32, use func(parts ...[]byte) error) error {
		return use(p.cfg.slot(p.source, int(i)))
	})
}

func (p *planes) close() {
	p.from.Close()
	p.to.Close()
}

// bare is one connection and a goroutine that receives chunks from it.
type bare struct {
	cfg    Config
	source []byte
	conn   net.Conn
	done   chan error // a complete copy was received, or the receiver failed
}

func newBare(ctx context.Context, cfg Config, source, arena []byte) (*bare, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &bare{cfg: cfg, source: source, done: make(chan error, 1)}
	go func() {
		conn, err := l.Accept()
		l.Close()
		if err != nil {
			b.done <- err
			return
		}
		defer conn.Close()
		if cfg.Server != nil {
			conn = tls.Server(conn, cfg.Server)
		}
		b.receive(conn, arena)
	}()
	if b.conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String()); err != nil {
		l.Close()
		return nil, err
	}
	if cfg.Client != nil {
		client := cfg.Client.Clone()
		client.ServerName = cmp.Or(client.ServerName, "127.0.0.1")
		b.conn = tls.Client(b.conn, client)
	}
	return b, nil
}

func (b *bare) receive(conn net.Conn, arena []byte) {
	buf := make([]byte, b.cfg.ChunkBytes)
	for {
		for i := range b.cfg.Chunks {
			if _, err := io.ReadFull(conn, buf); err != nil {
				if i > 0 || !errors.Is(err, io.EOF) {
					b.done <- fmt.Errorf("bare receiver: %w", err)
				}
				return
			}
			copy(b.cfg.slot(arena, i), buf)
		}
		b.done <- nil
	}
}

func (b *bare) copy() error {
	for i := range b.cfg.Chunks {
		if _, err := b.conn.Write(b.cfg.slot(b.source, i)); err != nil {
			return err
		}
	}
	return <-b.done
}

func (b *bare) close() { b.conn.Close() }
