package dst

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"troupe/core/hbm"
	"troupe/core/lora"
	"troupe/cuda"
	"troupe/engine"
)

const (
	adapterRank  = 4
	adapterBytes = 16 << 10
	// markBytes is the length of the ranges of an adapter that differ from those of other adapters:
	// the beginning of each page, and the end.
	markBytes = 64
	// adapterTime is the duration of reading an adapter's files.
	adapterTime = 20 * time.Millisecond
)

// FileState is the state of a node's adapter files.
type FileState string

// States of adapter files. The zero value means that they are intact.
const (
	FilesMissing FileState = "missing"
	FilesDamaged FileState = "damaged" // they end too early
	FilesSlow    FileState = "slow"    // reading takes a second
	FilesHang    FileState = "hang"    // reading does not end before the fault, unless it is cancelled
)

// adapterFiles are the adapter files of one node. They survive its crashes.
type adapterFiles struct {
	mu     sync.Mutex
	states map[string]FileState // by path
	healed chan struct{}        // closed at the next change
}

func newAdapterFiles() *adapterFiles {
	return &adapterFiles{states: make(map[string]FileState), healed: make(chan struct{})}
}

// set changes the state of the files of all revisions of an adapter.
func (a *adapterFiles) set(folder string, state FileState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.states[folder] = state; state == "" {
		delete(a.states, folder)
	}
	close(a.healed)
	a.healed = make(chan struct{})
}

// of returns the state of the files at a path.
func (a *adapterFiles) of(path string) (state FileState, healed <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.states[path[:strings.LastIndexByte(path, '/')]], a.healed
}

// adapterFolder returns the folder of all revisions of an adapter, each of which is a folder in it.
func adapterFolder(model, name string) string { return "/adapters/" + model + "/" + name }

// layoutOf returns the layout of an adapter. That of the last adapter of a model takes two pages.
func layoutOf(path string) *lora.Layout {
	l := &lora.Layout{}
	bytes := int64(adapterBytes)
	if strings.HasPrefix(path[strings.LastIndexByte(path[:strings.LastIndexByte(path, '/')], '/'):], "/"+largeAdapter) {
		bytes += hbm.PageBytes
	}
	l.Add(lora.Matrix{}, bytes)
	return l
}

// fillAdapter writes the content of the adapter at a path.
func fillAdapter(path string, into []byte) {
	for _, at := range marks(len(into)) {
		for i := 0; i < markBytes; i += stateBytes {
			sum := hashOf([]byte(fmt.Sprintf("%s %d %d", path, at, i)))
			copy(into[at+i:], sum[:])
		}
	}
}

// marks returns the offsets of the ranges that identify an adapter of the given size.
func marks(bytes int) (offsets []int) {
	for at := 0; at < bytes; at += hbm.PageBytes {
		offsets = append(offsets, at)
	}
	return append(offsets, bytes-markBytes)
}

// adapterID returns the hash of the adapter at a path, as the engine computes it; "" for no path.
func adapterID(path string) string {
	if path == "" {
		return ""
	}
	content := make([]byte, layoutOf(path).Bytes())
	fillAdapter(path, content)
	var parts [][]byte
	for _, at := range marks(len(content)) {
		parts = append(parts, content[at:at+markBytes])
	}
	id := hashOf(parts...)
	return string(id[:])
}

// adapterID returns the hash of the bytes in an adapter's pages; "" for no adapter.
func (e *simulatedEngine) adapterID(a *engine.Adapter) (string, error) {
	if a == nil {
		return "", nil
	}
	var parts [][]byte
	for _, at := range marks(int(a.Layout.Bytes())) {
		part := make([]byte, markBytes)
		if err := e.stream.CopyOut(part, a.Pages[at/hbm.PageBytes].Offset(int64(at%hbm.PageBytes))); err != nil {
			return "", err
		}
		parts = append(parts, part)
	}
	id := hashOf(parts...)
	return string(id[:]), nil
}

// OpenAdapter implements engine.AdapterLoader.
func (l *Loader) OpenAdapter(_, path string, _ cuda.Info) (engine.AdapterFile, error) {
	if state, _ := l.Adapters.of(path); state == FilesMissing {
		return engine.AdapterFile{}, fmt.Errorf("%s: no such folder", path)
	}
	layout := layoutOf(path)
	return engine.AdapterFile{Path: path, Layout: layout, Rank: adapterRank, Scale: 1,
		Read: func(ctx context.Context, into []byte) error { return l.readAdapter(ctx, path, into) }}, nil
}

// readAdapter reads the files of an adapter.
func (l *Loader) readAdapter(ctx context.Context, path string, into []byte) error {
	took := adapterTime
	state, healed := l.Adapters.of(path)
	for state == FilesHang {
		select {
		case <-healed:
		case <-ctx.Done():
			return ctx.Err()
		}
		state, healed = l.Adapters.of(path)
	}
	if state == FilesSlow {
		took = time.Second
	}
	select {
	case <-l.Runtime.After(took):
	case <-ctx.Done():
		return ctx.Err()
	}
	switch state, _ = l.Adapters.of(path); state {
	case FilesMissing:
		return fmt.Errorf("%s: no such folder", path)
	case FilesDamaged:
		fillAdapter(path, into[:len(into)/2])
		return fmt.Errorf("%s: unexpected end of file", path)
	}
	fillAdapter(path, into)
	return nil
}
