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

// interleavings is the default number of runs of TestRandomInterleavings; TROUPE_INTERLEAVINGS
// overrides it.
const interleavings = 200

// TestRandomInterleavings runs random pins, unpins and steps with faults. It checks that the pages
// of a granted pin stay readable until the pin ends, and that no page has two owners. At the end,
// all pages must be free and no adapter pinned.
func TestRandomInterleavings(t *testing.T) {
	n := interleavings
	if asked, err := strconv.Atoi(os.Getenv("TROUPE_INTERLEAVINGS")); err == nil {
		n = asked
	}
	for seed := range n {
		synctest.Test(t, func(t *testing.T) {
			r := &run{stage: newStage(t, 6), r: rand.New(rand.NewPCG(uint64(seed), 6)), keys: map[string]string{}}
			r.memory.onCopy = r.copyResult
			for i := 0; i < 40 && !t.Failed(); i++ {
				r.step()
				r.fault()
				time.Sleep(time.Duration(r.r.IntN(40)) * time.Millisecond)
				synctest.Wait()
				r.check()
			}
			r.finish()
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
	readable []string          // requests whose adapters the step in flight reads
	requests int
	failing  error // result of the next copy; errPanic panics
	log      []string
}

var (
	errDamaged = errors.New("tensor q_proj is damaged")
	errPanic   = errors.New("panic")
)

// copyResult returns the result of a copy.
func (r *run) copyResult(string) error {
	r.memory.mu.Lock()
	err := r.failing
	r.failing = nil
	r.memory.mu.Unlock()
	if errors.Is(err, errPanic) {
		panic("copy")
	}
	return err
}

// The adapters have one, two or three pages. Together they have twice as many pages as the pool.
var all = []string{"a1@1", "b2@1", "c3@1", "d1@2", "e2@1", "f3@7"}

func (r *run) note(format string, args ...any) { r.log = append(r.log, fmt.Sprintf(format, args...)) }

// step performs a random event of a replica.
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
			r.pins.Pin(request, key)
		})
	case 2, 3: // waiting requests retry; permanently refused ones end
		r.note("ask")
		r.run(func(actor.Context) {
			for _, request := range slices.Sorted(maps.Keys(r.keys)) {
				if _, why := r.pins.Pin(request, r.keys[request]); why != nil && why.Reason != lora.NoRoom {
					r.release(request)
				}
			}
		})
	case 4:
		if len(r.keys) > 0 {
			request := slices.Sorted(maps.Keys(r.keys))[r.r.IntN(len(r.keys))]
			r.note("unpin %s", request)
			r.run(func(actor.Context) { r.release(request) })
		}
	case 5:
		r.note("step")
		r.run(func(actor.Context) {
			if r.stepping = !r.stepping; r.stepping {
				for request, key := range r.keys {
					if state, _ := r.pins.Pin(request, key); state == lora.Active {
						r.readable = append(r.readable, key)
					}
				}
			} else {
				r.readable = nil
			}
		})
	}
}

func (r *run) release(request string) {
	r.pins.Unpin(request)
	delete(r.keys, request)
}

// fault injects a random fault.
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
	case 7: // the folder vanishes, or reappears
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

// crash crashes the replica: its sequences are lost, and the engine has ended its step.
func (r *run) crash() {
	r.note("replica crashes")
	r.end()
	r.readable = nil
	clear(r.keys)
	r.begin()
}

// check verifies the invariants that hold at any moment.
func (r *run) check() {
	r.t.Helper()
	for _, key := range r.readable {
		if !r.memory.intact(key) {
			r.t.Errorf("a step reads %s, which is not resident", key)
		}
	}
	r.run(func(actor.Context) {
		for request, key := range r.keys {
			if state, _ := r.pins.Pin(request, key); state == lora.Active && !r.memory.intact(key) {
				r.t.Errorf("%s holds %s, which is not resident", request, key)
			}
		}
	})
	for _, wrong := range r.memory.wrong {
		r.t.Error(wrong)
	}
}

// finish ends all faults and all requests, and checks that nothing leaked.
func (r *run) finish() {
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
			r.release(request)
		}
	})
	time.Sleep(time.Minute) // until all restarts are done
	synctest.Wait()
	if r.lost.Load() {
		r.crash()
	}
	for key, w := range r.pins.Locations() {
		if there := r.memory.intact(key); w.State != lora.Idle && w.State != lora.Absent ||
			there != (w.State == lora.Idle) {
			r.t.Errorf("%s is %s without requests; on the device: %v", key, w.State, there)
		}
	}
	for i := range 6 { // load one adapter per page to check that all pages are free
		request, key := fmt.Sprint("last", i), fmt.Sprintf("%c1@9", 'p'+i)
		for range 5 {
			if state, _ := r.pin(request, key); state == lora.Active {
				break
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if state, why := r.pin(request, key); state != lora.Active || !r.memory.intact(key) {
			r.t.Errorf("page %d of 6 is not available: %s, %+v", i, state, why)
		}
	}
}
