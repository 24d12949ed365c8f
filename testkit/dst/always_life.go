package dst

import (
	"context"
	"reflect"
	"unsafe"

	"github.com/asynkron/protoactor-go/actor"
)

// checkEnded checks, when an incarnation of an actor has ended, that it has cancelled the contexts of its
// jobs: otherwise they go on beside those of the next one.
func (n *Node) checkEnded(a actor.Actor, self *actor.PID, message any) {
	switch message.(type) {
	case *actor.Restarting, *actor.Stopped:
	default:
		return
	}
	for _, field := range livingContexts(a) {
		n.cfg.checks.fail("%s has ended, and has not canceled %s of its jobs", self.GetId(), field)
	}
}

// livingContexts returns the fields of an actor with a context that is not cancelled.
func livingContexts(a actor.Actor) (fields []string) {
	v := reflect.ValueOf(a)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return nil
	}
	v = v.Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		if f.Type() != reflect.TypeFor[context.Context]() || f.IsNil() {
			continue
		}
		life := *(*context.Context)(unsafe.Pointer(f.UnsafeAddr()))
		if life.Err() == nil {
			fields = append(fields, v.Type().Field(i).Name)
		}
	}
	return fields
}
