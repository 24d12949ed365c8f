package dst

import (
	"fmt"
	"hash/maphash"
	"reflect"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
)

// A note is what an actor's own timer or job sends to it. It carries the incarnation of the actor that
// started the timer or the job. A note of another incarnation is stale, and changes nothing.

// checkStale checks, if a message is a stale note, that the actor ignores it.
func (n *Node) checkStale(a actor.Actor, self *actor.PID, message any, handle func()) {
	of, isNote := incarnationOf(message)
	if !isNote {
		handle()
		return
	}
	if own, has := incarnationOf(a); !has || of == own {
		handle()
		return
	}
	n.checkIgnored(a, self, message, handle)
}

// checkIgnored checks that handling a message neither changes the state of the actor nor sends, starts or
// logs anything.
func (n *Node) checkIgnored(a actor.Actor, self *actor.PID, message any, handle func()) {
	state, done := digestOf(a), n.world.actions.Load()
	n.cfg.checks.stale(fmt.Sprintf("a stale %T for %s", message, self.GetId()))
	handle()
	n.cfg.checks.stale("")
	switch {
	case n.world.actions.Load() != done:
		n.cfg.checks.fail("%s sent or started something for a stale %T", self.GetId(), message)
	case digestOf(a) != state:
		n.cfg.checks.fail("%s changed its state for a stale %T", self.GetId(), message)
	}
}

// stale sets the stale note that is being handled. Until it is empty again, everything is logged, and
// what is logged is a violation: the note has reached a machine.
func (c *checks) stale(note string) {
	c.staleNote.Store(note)
	level := c.level
	if note != "" {
		level = zerolog.DebugLevel
	}
	zerolog.SetGlobalLevel(level)
}

// incarnationOf returns the unexported field incarnation of a struct that v points to.
func incarnationOf(v any) (uint64, bool) {
	p := reflect.ValueOf(v)
	if p.Kind() != reflect.Pointer || p.IsNil() || p.Elem().Kind() != reflect.Struct {
		return 0, false
	}
	t := p.Type().Elem()
	incarnations.RLock()
	index, known := incarnations.fields[t]
	incarnations.RUnlock()
	if !known {
		if f, ok := t.FieldByName("incarnation"); ok && f.Type.Kind() == reflect.Uint64 {
			index = f.Index
		}
		incarnations.Lock()
		incarnations.fields[t] = index
		incarnations.Unlock()
	}
	if index != nil {
		return p.Elem().FieldByIndex(index).Uint(), true
	}
	return 0, false
}

// incarnations has the index of the field incarnation by the type of a struct; nil if there is
// none.
var incarnations = struct {
	sync.RWMutex
	fields map[reflect.Type][]int
}{fields: make(map[reflect.Type][]int)}

var digestSeed = maphash.MakeSeed()

// digestOf returns a digest of the state of an actor and of its machine: of all structs that can be
// reached from it, in any order. What other packages have is compared by address.
func digestOf(a actor.Actor) (sum uint64) {
	f := fingerprint{seen: make(map[uintptr]bool)}
	for f.of(reflect.ValueOf(a)); len(f.next) > 0; {
		v := f.next[0]
		f.next = f.next[1:]
		sum += uint64(v.UnsafeAddr())*31 ^ f.of(v)
	}
	return sum
}

type fingerprint struct {
	seen map[uintptr]bool
	next []reflect.Value // that are still to be visited
}

func (f *fingerprint) of(v reflect.Value) (sum uint64) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && ours(v.Type().Elem()) && !f.seen[v.Pointer()] {
			f.seen[v.Pointer()] = true
			f.next = append(f.next, v.Elem())
		}
		return uint64(v.Pointer())
	case reflect.Interface:
		return f.of(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			sum = sum*31 + f.of(v.Field(i))
		}
	case reflect.Map: // the order does not matter
		for it := v.MapRange(); it.Next(); {
			sum += 1 + f.of(it.Key())*31 ^ f.of(it.Value())
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			sum = sum*31 + f.of(v.Index(i))
		}
		sum = sum*31 + uint64(v.Len())
	case reflect.String:
		return maphash.String(digestSeed, v.String())
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return uint64(uintptr(v.UnsafePointer()))
	case reflect.Invalid:
	default:
		return f.plain(v)
	}
	return sum
}

// plain returns the digest of a number or of a boolean.
func (f *fingerprint) plain(v reflect.Value) uint64 {
	switch {
	case v.CanInt():
		return uint64(v.Int())
	case v.CanUint():
		return v.Uint()
	case v.CanFloat():
		return uint64(v.Float() * 1e9)
	case v.Kind() == reflect.Bool && v.Bool():
		return 1
	}
	return 0
}
