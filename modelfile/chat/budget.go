package chat

import (
	"fmt"
	"time"
)

// Limits of one rendering. Go cannot recover from a stack overflow or from running out of memory,
// so all work that a template can cause is charged here first.
const (
	maxRounds = 1 << 18   // loop iterations and macro calls
	maxOps    = 1 << 24   // expressions, plus items or units of 64 bytes that they visit
	maxBytes  = 128 << 20 // total bytes of the created strings, lists and scopes
	maxValue  = 16 << 20  // bytes of one string, and of the output
	maxDepth  = 128       // nesting of macros and loops, and of values
	maxStack  = 4096      // nesting of expressions and blocks
	maxTime   = time.Second

	opsPerClock = 1024 // operations between readings of the clock
)

// Charged sizes, in bytes.
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

// fault carries an error to the start of a rendering, as a panic value.
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
			fail("rendering takes longer than %v", maxTime)
		}
	}
}

// grow charges n bytes that are about to be allocated for one value, and the work to fill them.
func (b *budget) grow(n int) {
	if n < 0 || n > maxValue {
		fail("a value is longer than %d bytes", maxValue)
	}
	if n > maxBytes-b.bytes {
		fail("all values together exceed %d bytes", maxBytes)
	}
	b.bytes += n
	b.scan(n)
}

// scan charges the work of visiting n bytes.
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

// round charges an iteration of a loop or a call of a macro.
func (b *budget) round() {
	if b.rounds++; b.rounds > maxRounds {
		fail("loops have more than %d rounds", maxRounds)
	}
	b.grow(scopeBytes)
}

// nest counts the start of a macro or loop. The caller must decrement depth at its end.
func (b *budget) nest() {
	if b.depth++; b.depth > maxDepth {
		fail("macros and loops are nested more than %d levels deep", maxDepth)
	}
}

// enter counts the start of an expression or block. The caller must decrement stack at its end.
func (b *budget) enter() {
	if b.stack++; b.stack > maxStack {
		fail("expressions are nested more than %d levels deep", maxStack)
	}
	b.work(1)
}

// level checks the nesting of a value that is visited. A value that contains itself exceeds the
// limit.
func (b *budget) level(depth int) {
	if depth > maxDepth {
		fail("a value is more than %d levels deep, or contains itself", maxDepth)
	}
	b.work(1)
}
