package dst

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"slices"
	"time"

	"troupe/actors/supervise"
	"troupe/core/sample"
	"troupe/cuda"
	"troupe/engine"
)

const (
	layers     = 2
	stateBytes = 16              // of one token in one layer
	tokenBytes = 1 << 10         // of a token's KV in one layer; its first bytes are the state
	layerBytes = 16 * tokenBytes // of a block
	blockBytes = layers * layerBytes
	vocab      = 1024

	weightBytes = 4 << 20
)

// state is the state that a layer keeps for a token: a hash of all tokens so far.
type state [stateBytes]byte

// next returns the states of a token that follows a token with the given states.
func next(previous [layers]state, token uint32, with string) (now [layers]state) {
	var t [4]byte
	binary.LittleEndian.PutUint32(t[:], token)
	now[0] = state(hashOf([]byte{0}, previous[0][:], t[:], []byte(with)))
	for l := 1; l < layers; l++ {
		now[l] = state(hashOf([]byte{byte(l)}, previous[l][:], now[l-1][:]))
	}
	return now
}

func hashOf(parts ...[]byte) (first [stateBytes]byte) {
	var all [128]byte // on the stack, for nearly all
	joined := all[:0]
	for _, p := range parts {
		joined = append(joined, p...)
	}
	h := sha256.Sum256(joined)
	return [stateBytes]byte(h[:stateBytes])
}

// addState adds the states of a token to a hash, which never fails.
func addState(h hash.Hash, one [layers]state) {
	for _, s := range one {
		_, _ = h.Write(s[:])
	}
}

// chosen returns the token that follows tokens whose states are hashed.
func chosen(h hash.Hash) uint32 {
	return firstText + binary.LittleEndian.Uint32(h.Sum(nil))%(vocab-firstText)
}

// Output returns the first n tokens that a correct replica of a revision computes for a prompt with the adapter
// of the given hash; see revisionOf and adapterID.
func Output(revision string, prompt []uint32, n int, adapter string) (output []uint32) {
	tokens, _ := generate(prompt, revision+adapter, sample.Params{}, limits{most: n})
	for _, t := range tokens {
		output = append(output, t.ID)
	}
	return output
}

// Loader loads models without files: every path is a model.
type Loader struct {
	Runtime supervise.Runtime
	// StepTime is the duration of a step, to which TokenTime is added for each token in it.
	// LoadTime is the duration of a load.
	StepTime, TokenTime, LoadTime time.Duration
	Adapters                      *adapterFiles
	faults                        *engineFaults

	checks *checks // may be nil
}

// Inspect implements engine.Loader.
func (l *Loader) Inspect(path string, _ cuda.Info) (engine.ModelInfo, error) {
	if l.faults.folderLost(path) {
		return engine.ModelInfo{}, fmt.Errorf("%s: %w", path, fs.ErrNotExist)
	}
	return InfoOf(path), nil
}

// InfoOf describes the model at a path.
func InfoOf(path string) engine.ModelInfo {
	return engine.ModelInfo{Vocab: vocab, ContextTokens: 512, EOS: []uint32{eos},
		WeightBytes: weightBytes, WeightLayout: "dst",
		KVTokenBytes: layers * tokenBytes, KVLayout: "dst " + path, KVLayers: layers,
		RowBytes: 64, LogitsBytes: 64, AdapterBytes: 64, RankBytes: 4096}
}

// Load implements engine.Loader.
func (l *Loader) Load(ctx context.Context, device cuda.Device, path string) (engine.Weights, error) {
	if _, err := l.Inspect(path, device.Info()); err != nil {
		return nil, err
	}
	p, err := device.Alloc(InfoOf(path).WeightBytes)
	if err != nil {
		return nil, err
	}
	if err := l.faults.wait(ctx, l.LoadTime, &l.faults.hangLoads); err != nil {
		return nil, errors.Join(err, device.Free(p))
	}
	for _, s := range partsOf() { // the rest is zero, as in writeWeights
		if err := device.(*Device).put(p.Offset(s.Offset), []byte(path)); err != nil {
			return nil, errors.Join(err, device.Free(p))
		}
	}
	if l.faults.take(&l.faults.failLoads) {
		return nil, errors.Join(errLoad, device.Free(p))
	}
	return l.place(device, path, p)
}

type weights struct {
	loader *Loader
	device cuda.Device
	path   string
	at     cuda.Ptr
}

// damageAt is the offset of the bytes that are not zero in damaged weights.
const damageAt = 512

// place returns weights that are in the memory of a device, and damages them there if a fault says so.
func (l *Loader) place(device cuda.Device, path string, at cuda.Ptr) (engine.Weights, error) {
	w := &weights{loader: l, device: device, path: path, at: at}
	if !l.damages(w) {
		return w, nil
	}
	if err := device.(*Device).access(at.Offset(damageAt), 1, func(_ int, b []byte) { b[0]++ }); err != nil {
		return nil, errors.Join(err, device.Free(at))
	}
	return w, nil
}

// read returns what the weights in memory are: their revision, and how they are damaged, if they are.
func (w *weights) read() (string, error) {
	var found [damageAt + stateBytes]byte
	err := w.device.(*Device).access(w.at, len(found), func(offset int, b []byte) { copy(found[offset:], b) })
	if err != nil {
		return "", err
	}
	revision := revisionIn(pathIn(found[:damageAt]))
	if damage := found[damageAt:]; slices.Max(damage) > 0 {
		return revision + string(damage), nil
	}
	return revision, nil
}

func (w *weights) Info() engine.ModelInfo { return InfoOf(w.path) }
func (w *weights) Free() error            { return w.device.Free(w.at) }

func (w *weights) Digests() engine.Digests {
	weights, revision := digestsOf(w.path)
	return engine.Digests{Weights: weights, Revision: revision}
}

// Open implements engine.Weights.
func (w *weights) Open(arena engine.Arena, limits engine.Limits) (engine.Engine, error) {
	s, err := w.device.NewStream("engine")
	return &simulatedEngine{weights: w, arena: arena, stream: s, canary: limits.MaxSequences == 1,
		losses: w.device.(*Device).lossCount(), hashed: make(map[int32]hashed)}, err
}

// simulatedEngine is the engine of the simulation.
type simulatedEngine struct {
	weights *weights
	arena   engine.Arena
	stream  cuda.Stream
	canary  bool             // of a load, which has no turn
	losses  int              // of the device, before the engine was opened
	hashed  map[int32]hashed // by the first block of a sequence
}

// Close implements engine.Engine.
func (e *simulatedEngine) Close() error { return e.stream.Close() }

// Step implements engine.Engine.
func (e *simulatedEngine) Step(ctx context.Context, batch []engine.Sequence) ([]sample.Token, error) {
	l, tokens := e.weights.loader, 0
	if !e.canary {
		l.checks.step(e.weights.path, e.arena.BlockTokens, batch)
		l.checks.stepBegins(e.weights.device.(*Device))
		defer l.checks.stepEnds(e.weights.device.(*Device))
	}
	adapters := make([]string, len(batch))
	for i, s := range batch {
		tokens += len(s.Tokens)
		var err error
		if adapters[i], err = e.adapterID(s.Adapter); err != nil {
			return nil, err
		}
	}
	took := l.faults.factor() * (l.StepTime + time.Duration(tokens)*l.TokenTime)
	hangs, failing := &l.faults.hang, &l.faults.failSteps
	if e.canary { // it is a part of a load, and computes a token per step
		took = l.faults.factor() * time.Duration(tokens) * l.TokenTime
		hangs, failing = &l.faults.hangLoads, &l.faults.failLoads
	}
	if err := l.faults.wait(ctx, took, hangs); err != nil {
		return nil, err
	}
	if e.losses != e.weights.device.(*Device).lossCount() { // as with the context of a driver
		return nil, cuda.ErrDeviceLost
	}
	fails := l.faults.take(failing)
	var lost time.Duration
	loses := false
	if !e.canary {
		lost, loses = nextOf(l.faults, &l.faults.loseIn)
	}
	var sampled []sample.Token
	for i, s := range batch {
		if err := pass(ctx, s.Gate); err != nil {
			return nil, &engine.StepAborted{Sequence: i, Err: err}
		}
		weights, err := e.weights.read()
		if err != nil {
			return nil, err
		}
		t, err := e.compute(s, adapters[i], weights)
		if loses {
			loses, err = false, e.weights.device.(*Device).lose(l.Runtime, lost)
		}
		if err != nil {
			return nil, err
		}
		if fails {
			return nil, errStep
		}
		if s.Sample {
			sampled = append(sampled, draw(t, s.Sampling))
		}
	}
	return sampled, nil
}

// pass waits until all layers of a sequence's blocks have arrived.
func pass(ctx context.Context, gate engine.Gate) error {
	for layer := 0; gate != nil && layer < layers; {
		ready, next, err := gate.Pass(ctx, layer)
		if err != nil {
			return err
		}
		if ready != nil {
			if err := ready.Sync(); err != nil {
				return err
			}
		}
		layer = next
	}
	return nil
}

// compute writes the states of a sequence's tokens and returns the token that follows them. adapter
// is the hash of the sequence's adapter at the start of the step, which must not have changed. weights is
// what the weights in memory are.
func (e *simulatedEngine) compute(s engine.Sequence, adapter, weights string) (uint32, error) {
	if now, err := e.adapterID(s.Adapter); err != nil {
		return 0, err
	} else if now != adapter {
		adapter += now
	}
	with := weights + adapter
	all := make([][layers]state, s.Position, s.Position+len(s.Tokens))
	for from := 0; from < s.Position; from += e.arena.BlockTokens {
		if err := e.read(s.Blocks, from, all[from:min(from+e.arena.BlockTokens, s.Position)]); err != nil {
			return 0, err
		}
	}
	for i, t := range s.Tokens {
		var last [layers]state
		if len(all) > 0 {
			last = all[len(all)-1]
		}
		now := next(last, t, with)
		if err := e.write(s.Blocks, s.Position+i, now); err != nil {
			return 0, err
		}
		all = append(all, now)
	}
	return e.choose(s.Blocks[0], all), nil
}

// hashed is the hash of the states of the first tokens of a sequence.
type hashed struct {
	states [][layers]state
	sum    hash.Hash
}

// choose returns the token that follows tokens with the given states. It depends on every byte
// of the states, so that a KV block that is stale or belongs to another sequence is detected.
// Those that have not changed since the last step with the same first block are not hashed
// again.
func (e *simulatedEngine) choose(first int32, all [][layers]state) uint32 {
	known := e.hashed[first]
	if n := len(known.states); n == 0 || n > len(all) || !slices.Equal(known.states, all[:n]) {
		known = hashed{sum: sha256.New()}
	}
	for _, one := range all[len(known.states):] {
		addState(known.sum, one)
	}
	known.states = all
	e.hashed[first] = known
	return chosen(known.sum)
}

// address returns the address of the state of a position in a layer.
func (e *simulatedEngine) address(blocks []int32, position, layer int) (cuda.Ptr, error) {
	i := position / e.arena.BlockTokens
	if i >= len(blocks) || int(blocks[i]) >= e.arena.Blocks() {
		return 0, fmt.Errorf("position %d is outside the blocks %v of %d", position, blocks, e.arena.Blocks())
	}
	offset := layer*e.arena.BlockTokens + position%e.arena.BlockTokens
	return e.arena.Base.Offset(int64(blocks[i])*e.arena.BlockBytes + int64(offset*tokenBytes)), nil
}

// read reads the states of successive positions of one block.
func (e *simulatedEngine) read(blocks []int32, from int, all [][layers]state) error {
	for l := range layers {
		at, err := e.address(blocks, from, l)
		if err != nil {
			return err
		}
		err = e.stream.(*stream).read(at, (len(all)-1)*tokenBytes+stateBytes, func(offset int, b []byte) {
			for ; len(b) > 0; offset, b = offset+tokenBytes, b[min(tokenBytes, len(b)):] {
				copy(all[offset/tokenBytes][l][:], b)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *simulatedEngine) write(blocks []int32, position int, one [layers]state) error {
	for l := range layers {
		at, err := e.address(blocks, position, l)
		if err != nil {
			return err
		}
		if err := e.stream.CopyIn(at, one[l][:]); err != nil {
			return err
		}
	}
	return nil
}
