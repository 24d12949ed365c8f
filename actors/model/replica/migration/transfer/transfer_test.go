package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/model/replica/migration/transfer"
	"troupe/actors/supervise"
	"troupe/core/migrate"
	"troupe/messages"
	"troupe/testkit"
)

const blockBytes = 4

// blocks are the KV blocks of a replica. A write or read takes 10 ms.
type blocks struct {
	mu      sync.Mutex
	content map[int32]string
	busy    int // reads and writes in progress
}

func (b *blocks) BlockBytes() int { return blockBytes }

func (b *blocks) use(f func()) {
	b.mu.Lock()
	b.busy++
	b.mu.Unlock()
	time.Sleep(10 * time.Millisecond)
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
	b.busy--
}

func (b *blocks) Read(_ context.Context, block int32, into []byte) error {
	b.use(func() { copy(into, fmt.Sprintf("b%03d", block)) })
	return nil
}

func (b *blocks) Write(_ context.Context, block int32, from []byte) error {
	b.use(func() { b.content[block] = string(from) })
	return nil
}

// bulk is a data plane that sends each block to itself.
type bulk struct {
	mu      sync.Mutex
	put     func(index uint32, b []byte) error
	chunks  uint32
	dropped int
	sent    []string
	refuses error
	crashes bool
}

func (p *bulk) Expect(_ int, chunks uint32, put func(uint32, []byte) error) (*messages.BulkTicket, error) {
	if p.crashes {
		p.crashes = false
		panic("told to")
	}
	p.put, p.chunks = put, chunks
	return &messages.BulkTicket{Transfer: "t"}, p.refuses
}

func (p *bulk) Drop(*messages.BulkTicket) { p.dropped++ }

func (p *bulk) Send(ctx context.Context, _ *messages.BulkTicket, indices []uint32,
	read func(uint32, []byte) (int, error)) error {
	for _, i := range indices {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := make([]byte, 2*blockBytes)
		n, err := read(i, b)
		if err != nil {
			return err
		}
		p.mu.Lock()
		p.sent = append(p.sent, fmt.Sprint(i, string(b[:n])))
		p.mu.Unlock()
	}
	return nil
}

// parent acts as the replica: it starts the actor and records its answers.
type parent struct {
	t       *testing.T
	sys     *actor.ActorSystem
	bulk    bulk
	blocks  blocks
	child   *actor.PID
	answers []string
}

type answer struct{ text string }

func newParent(t *testing.T) *parent {
	p := &parent{t: t, sys: testkit.System(t), blocks: blocks{content: map[int32]string{}}}
	pid := p.sys.Root.Spawn(supervise.Props(func() actor.Actor { return actor.ReceiveFunc(p.receive) },
		actor.WithSupervisor(supervise.Strategy(nil))))
	t.Cleanup(func() { _ = p.sys.Root.StopFuture(pid).Wait() })
	synctest.Wait()
	return p
}

func (p *parent) receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		pid, err := ctx.SpawnNamed(transfer.Props(transfer.Config{Bulk: &p.bulk, Blocks: &p.blocks,
			Ready: func(n uint64) any { return &answer{fmt.Sprint("ready ", n)} }}), "transfers")
		if err != nil {
			p.t.Error(err)
		}
		p.child = pid
	case *answer:
		if p.blocks.busy > 0 && msg.text != "sent <nil>" {
			p.t.Errorf("%q while %d blocks are read or written", msg.text, p.blocks.busy)
		}
		p.answers = append(p.answers, msg.text)
	}
}

func command(n uint64) transfer.Command {
	return transfer.Command{Key: migrate.Key{ID: "s", Attempt: 1}, Incarnation: n}
}

func (p *parent) send(n uint64, indices ...uint32) {
	c := &transfer.SendBlocks{Command: command(n), Indices: indices,
		Done: func(err error) any { return &answer{fmt.Sprint("sent ", err)} }}
	for _, i := range indices {
		c.Blocks = append(c.Blocks, int32(10*i))
	}
	p.sys.Root.Send(p.child, c)
}

func (p *parent) open(n uint64, resident int) {
	p.sys.Root.Send(p.child, &transfer.OpenSink{Command: command(n), Blocks: []int32{7, 8, 9}, Resident: resident,
		Opened: func(ticket *messages.BulkTicket, err error) any {
			return &answer{fmt.Sprint("opened ", ticket.GetTransfer(), " ", err)}
		}})
}

func (p *parent) close(n uint64, first int) {
	p.sys.Root.Send(p.child, &transfer.CloseSink{Command: command(n), Blocks: first,
		Closed: func(complete bool) any { return &answer{fmt.Sprint("closed ", complete)} }})
}

func (p *parent) check(want ...string) {
	p.t.Helper()
	synctest.Wait()
	if !slices.Equal(p.answers, want) {
		p.t.Errorf("the parent received %q, want %q", p.answers, want)
	}
	p.answers = nil
}

func TestSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParent(t)
		p.check("ready 1")
		p.send(1, 2, 5)
		time.Sleep(time.Second)
		p.check("sent <nil>")
		if want := []string{"2b020", "5b050"}; !slices.Equal(p.bulk.sent, want) {
			t.Errorf("sent %q, want %q", p.bulk.sent, want)
		}
		p.send(1, 2, 5)
		synctest.Wait()
		p.sys.Root.Send(p.child, &transfer.CancelSend{Command: command(1)})
		time.Sleep(time.Second)
		p.check("sent context canceled")
		p.send(2, 1) // for another incarnation
		time.Sleep(time.Second)
		p.check()
	})
}

func TestReceive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParent(t)
		p.open(1, 1)
		p.check("ready 1", "opened t <nil>")
		for i, ok := range []bool{false, true, true, false} {
			if err := p.bulk.put(uint32(i), []byte("data")); (err == nil) != ok {
				t.Errorf("block %d: %v", i, err)
			}
		}
		arrived := time.Now()
		time.Sleep(time.Second)
		p.sys.Root.Send(p.child, &transfer.AskSink{Command: command(1),
			Heard: func(at time.Time) any { return &answer{fmt.Sprint("heard ", arrived.Sub(at))} }})
		p.check("heard 0s")
		p.close(1, 3)
		p.check("closed true")
		if p.bulk.put(1, []byte("more")) == nil || p.bulk.dropped != 1 || p.blocks.content[8] != "data" {
			t.Errorf("a block was written after the close; %d transfers dropped, %v", p.bulk.dropped, p.blocks.content)
		}
		p.close(1, 3)
		p.check("closed false")
		p.open(1, 0)
		p.close(1, 1)
		p.open(1, 2)
		p.close(1, 4)
		synctest.Wait()
		p.bulk.refuses = errors.New("no port")
		p.open(1, 0)
		p.check("opened t <nil>", "closed false", "opened t <nil>", "closed false", "opened t no port")
	})
}

// TestCrash checks that a crash ends sends and transfers, and that the next incarnation reports only
// once no block is read or written. It ignores commands for the earlier one.
func TestCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParent(t)
		p.open(1, 0)
		p.check("ready 1", "opened t <nil>")
		put := p.bulk.put
		p.send(1, 2, 5)
		go func() { _ = put(0, []byte("data")) }()
		synctest.Wait()
		p.bulk.crashes = true
		p.open(1, 0)
		p.close(1, 0)
		p.send(1, 3)
		time.Sleep(time.Second)
		p.check("ready 2")
		if p.bulk.dropped != 1 || put(1, []byte("data")) == nil || slices.Contains(p.bulk.sent, "3b030") {
			t.Errorf("%d transfers dropped, sent %q", p.bulk.dropped, p.bulk.sent)
		}
		p.open(2, 0)
		p.check("opened t <nil>")
	})
}
