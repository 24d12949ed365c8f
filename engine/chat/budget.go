package chat

import (
	"fmt"
	"time"
)

// Bounds of one rendering. Go cannot recover from a full stack or from memory that has run out, so all work that a
// template can cause is charged here before it is done.
const (
	maxRounds = 1 << 18   // rounds of loops and calls of macros
	maxOps    = 1 << 24   // evaluated expressions, and items or 64 bytes that one of them walks
	maxBytes  = 128 << 20 // bytes of all the strings, lists and scopes that are made
	maxValue  = 16 << 20  // bytes of one string, and of the output
	maxDepth  = 128       // macros and loops within one another, and levels of a value
	maxStack  = 4096      // expressions and blocks within one another
	maxTime   = time.Second

	opsPerClock = 1024 // how often the clock is read
)

// Sizes that are charged, in bytes.
const (
	itemBytes  = 16  // an item of a list
	pairBytes  = 96  // a pair of an object, with its index
	scopeBytes = 256 // the names of a block
)

// budget counts what one rendering has used.
type budget struct {
	rounds, ops, bytes  int
	depth, stack, clock int
	now                 func() time.Time
	deadline            time.Time
}

// fault carries an error up to the start of a rendering, as a panic.
type fault struct {
	err    error
	raised bool // by raise_exception
}

func fail(format string, args ...any) { panic(fault{err: fmt.Errorf(format, args...)}) }

// work charges n operations.
func (b *budget) work(n int) {
	if n < 0 || n > maxOps-b.ops {
		fail("more than %d operations", maxOps)
	}
	if b.ops += n; b.ops >= b.clock {
		b.clock = b.ops + opsPerClock
		if b.now().After(b.deadline) {
			fail("the rendering takes longer than %v", maxTime)
		}
	}
}

// grow charges n bytes that are about to be allocated for one value, and the work of filling them.
func (b *budget) grow(n int) {
	if n < 0 || n > maxValue {
		fail("a value is longer than %d bytes", maxValue)
	}
	if n > maxBytes-b.bytes {
		fail("its values have more than %d bytes", maxBytes)
	}
	b.bytes += n
	b.scan(n)
}

// scan charges the work of walking n bytes.
func (b *budget) scan(n int) { b.work(n/64 + 1) }

// repeat charges n times size bytes. The product must not overflow.
func (b *budget) repeat(n, size int) {
	if n > 0 && size > maxValue/n {
		fail("a value is longer than %d bytes", maxValue)
	}
	b.grow(max(n, 0) * size)
}

// list charges a list of n items.
func (b *budget) list(n int) {
	b.repeat(n, itemBytes)
	b.work(n)
}

// round charges a round of a loop, or a call of a macro.
func (b *budget) round() {
	if b.rounds++; b.rounds > maxRounds {
		fail("more than %d rounds of its loops", maxRounds)
	}
	b.grow(scopeBytes)
}

// nest counts a macro or a loop that begins. The caller must subtract from depth when it ends.
func (b *budget) nest() {
	if b.depth++; b.depth > maxDepth {
		fail("its macros and loops are more than %d deep", maxDepth)
	}
}

// enter counts an expression or block that begins. The caller must subtract from stack when it ends.
func (b *budget) enter() {
	if b.stack++; b.stack > maxStack {
		fail("its expressions are more than %d deep", maxStack)
	}
	b.work(1)
}

// level checks the depth of a value that is walked. A value that contains itself exceeds it.
func (b *budget) level(depth int) {
	if depth > maxDepth {
		fail("a value is more than %d levels deep, or contains itself", maxDepth)
	}
	b.work(1)
}
