package adapter_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/lora"
	"troupe/cuda"
	"troupe/messages"
)

// interleavings is how many runs of TestInterleavings there are, but for TROUPE_INTERLEAVINGS.
const interleavings = 200

// TestInterleavings: in random runs of pins, unpins and steps, with something going wrong at each step, a pin that holds can be read until it
// ends, no page has two owners, and in the end nothing is left: all pages can be had, and no adapter is in use.
func TestInterleavings(t *testing.T) {
	n := interleavings
	if asked, err := strconv.Atoi(os.Getenv("TROUPE_INTERLEAVINGS")); err == nil {
		n = asked
	}
	for seed := range n {
		synctest.Test(t, func(t *testing.T) {
			r := &run{stage: newStage(t, 6), r: rand.New(rand.NewPCG(uint64(seed), 6)), keys: map[string]string{}}
			r.memory.load = r.fate
			for i := 0; i < 40 && !t.Failed(); i++ {
				r.step()
				r.fault()
				time.Sleep(time.Duration(r.r.IntN(40)) * time.Millisecond)
				synctest.Wait()
				r.check()
			}
			r.settle()
			r.end()
			if t.Failed() {
				t.Fatalf("seed %d: %v", seed, r.log)
			}
		})
	}
}

// run is one interleaving.
type run struct {
	*stage
	r        *rand.Rand
	keys     map[string]string // request -> adapter
	readable []string          // requests that the step in flight reads for
	requests int
	failing  error // the next copy does; errPanic panics
	log      []string
}

var (
	errDamaged = errors.New("tensor q_proj is damaged")
	errPanic   = errors.New("panic")
)

// fate is what becomes of a copy.
func (r *run) fate(string) error {
	r.memory.mu.Lock()
	err := r.failing
	r.failing = nil
	r.memory.mu.Unlock()
	if errors.Is(err, errPanic) {
		panic("copy")
	}
	return err
}

// adapters are of one, two or three pages; all of them together have twice as many as there are.
var all = []string{"a1@1", "b2@1", "c3@1", "d1@2", "e2@1", "f3@7"}

func (r *run) note(format string, args ...any) { r.log = append(r.log, fmt.Sprintf(format, args...)) }

// step is something that a replica does.
func (r *run) step() {
	switch r.r.IntN(6) {
	case 0, 1:
		r.requests++
		request, key := fmt.Sprint("r", r.requests), all[r.r.IntN(len(all))]
		r.keys[request] = key
		r.note("pin %s %s", request, key)
		r.run(func(ctx actor.Context) {
			if r.life != 0 {
				ctx.Send(r.pool, &messages.AdapterRequested{Adapter: specOf(key)})
			}
			r.desk.Pin(request, key)
		})
	case 2, 3: // those that wait ask again; those that were refused for good go
		r.note("ask")
		r.run(func(actor.Context) {
			for _, request := range slices.Sorted(maps.Keys(r.keys)) {
				if _, why := r.desk.Pin(request, r.keys[request]); why != nil && why.Reason != lora.NoRoom {
					r.leave(request)
				}
			}
		})
	case 4:
		if len(r.keys) > 0 {
			request := slices.Sorted(maps.Keys(r.keys))[r.r.IntN(len(r.keys))]
			r.note("unpin %s", request)
			r.run(func(actor.Context) { r.leave(request) })
		}
	case 5:
		r.note("step")
		r.run(func(actor.Context) {
			if r.stepping = !r.stepping; r.stepping {
				for request, key := range r.keys {
					if state, _ := r.desk.Pin(request, key); state == lora.Active {
						r.readable = append(r.readable, key)
					}
				}
			} else {
				r.readable = nil
			}
		})
	}
}

func (r *run) leave(request string) {
	r.desk.Unpin(request)
	delete(r.keys, request)
}

// fault is something that goes wrong.
func (r *run) fault() {
	what := r.r.IntN(9)
	r.note("fault %d", what)
	switch what {
	case 0:
		r.fail(errDamaged)
	case 1:
		r.fail(fmt.Errorf("staging: %w", cuda.ErrOutOfMemory))
	case 2:
		r.fail(errPanic)
	case 3:
		r.crashPool.Store(true)
	case 4:
		r.crashSlot.Store(true)
	case 5:
		r.run(func(ctx actor.Context) { ctx.(actor.Supervisor).RestartChildren(r.pool) })
	case 6:
		key := all[r.r.IntN(len(all))]
		r.run(func(ctx actor.Context) { ctx.Send(r.pool, &messages.ForgetAdapter{Adapter: specOf(key)}) })
	case 7: // the folder vanishes, or is there again
		path := specOf(all[r.r.IntN(len(all))]).GetPath()
		r.memory.mu.Lock()
		r.memory.gone[path] = !r.memory.gone[path]
		r.memory.mu.Unlock()
	case 8:
		if r.r.IntN(4) == 0 {
			r.crash()
		}
	}
	if r.lost.Load() { // the pool crashed too often, and the replica with it
		r.crash()
	}
}

func (r *run) fail(err error) {
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	r.failing = err
}

// crash is a crash of the replica: its sequences are gone, and the engine has ended its step.
func (r *run) crash() {
	r.note("replica crashes")
	r.end()
	r.readable = nil
	clear(r.keys)
	r.begin()
}

// check looks at what must hold at any moment.
func (r *run) check() {
	r.t.Helper()
	for _, key := range r.readable {
		if !r.memory.whole(key) {
			r.t.Errorf("a step reads %s, which is not there", key)
		}
	}
	r.run(func(actor.Context) {
		for request, key := range r.keys {
			if state, _ := r.desk.Pin(request, key); state == lora.Active && !r.memory.whole(key) {
				r.t.Errorf("%s holds %s, which is not there", request, key)
			}
		}
	})
	for _, wrong := range r.memory.wrong {
		r.t.Error(wrong)
	}
	if n := r.memory.hostBytes(); n > hostBytes {
		r.t.Errorf("%d bytes of host memory are used, of %d", n, hostBytes)
	}
}

// settle ends all faults and all requests, and looks whether something is left.
func (r *run) settle() {
	r.t.Helper()
	r.crashPool.Store(false)
	r.crashSlot.Store(false)
	r.fail(nil)
	r.memory.mu.Lock()
	clear(r.memory.gone)
	r.memory.mu.Unlock()
	if r.lost.Load() {
		r.crash()
	}
	r.run(func(actor.Context) {
		r.stepping = false
		for request := range r.keys {
			r.leave(request)
		}
	})
	time.Sleep(time.Minute) // whoever is to be restarted, is
	synctest.Wait()
	if r.lost.Load() {
		r.crash()
	}
	for key, w := range r.desk.Locations() {
		if there := r.memory.whole(key); w.State != lora.Idle && w.State != lora.Absent || there != (w.State == lora.Idle) {
			r.t.Errorf("%s is %s, with nobody there; it is on the device: %v", key, w.State, there)
		}
	}
	for i := range 6 { // page by page, all that there are
		request, key := fmt.Sprint("last", i), fmt.Sprintf("%c1@9", 'p'+i)
		for range 5 {
			if state, _ := r.pin(request, key); state == lora.Active {
				break
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if state, why := r.pin(request, key); state != lora.Active || !r.memory.whole(key) {
			r.t.Errorf("page %d of 6 can not be had: %s, %+v", i, state, why)
		}
	}
}
