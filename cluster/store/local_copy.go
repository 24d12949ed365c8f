package store

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"troupe/actors/supervise"
	"troupe/cluster/backup"
)

// localCopy maintains the copy of the desired state in the data folder.
type localCopy struct {
	folder       string
	saver        *backup.Saver // nil if no copy is kept
	rt           supervise.Runtime
	highestTerm  atomic.Pointer[func() uint64]
	last         backup.State // last saved state; used by the saver's goroutine only
	savedChanges uint64       // value of mirror.changes when last was saved; used by the same goroutine
	termLimit    atomic.Uint64
	startTerm    uint64 // the copy's term at start
	stopping     atomic.Bool
}

func (c *localCopy) start(s *Store, cfg Config) {
	if cfg.Folder == "" {
		return
	}
	c.folder, c.rt = cfg.Folder, s.rt
	if known := cfg.Copy; known != nil {
		c.last.Saved, c.last.Stopped = known.Saved, known.Stopped
		c.last.Term, c.last.TermLimit = known.Term, known.TermLimit
		c.termLimit.Store(known.TermLimit)
		c.startTerm = known.Term
	}
	c.saver = backup.NewSaver(s.rt, func() error { return c.write(&s.mirror) })
	s.mirror.onChange = c.saver.Request
}

// save saves what this node knows and returns after it is synced to disk.
func (c *localCopy) save(ctx context.Context) error {
	if c.saver == nil {
		return nil
	}
	return c.saver.Save(ctx)
}

// write saves the state if it has changed. Only the saver calls it.
func (c *localCopy) write(m *mirror) error {
	next, changes := m.backupState()
	next.Saved, next.Term, next.TermLimit = c.last.Saved, c.last.Term, c.last.TermLimit
	next.Stopped = c.stopping.Load()
	raised := false
	if terms := c.highestTerm.Load(); terms != nil {
		raised = next.RecordTerm((*terms)())
	}
	if changes == c.savedChanges && !raised && next.Stopped == c.last.Stopped {
		return nil
	}
	if err := backup.Save(c.rt, c.folder, &next); err != nil {
		return err
	}
	c.last, c.savedChanges = next, changes
	c.termLimit.Store(next.TermLimit)
	return nil
}

// discardTerms drops the terms of a copy of another cluster. It must precede the first save.
func (c *localCopy) discardTerms() {
	c.last.Term, c.last.TermLimit, c.startTerm = 0, 0, 0
	c.termLimit.Store(0)
}

// Terms returns the highest term that the copy had at start, and the limit of terms. Both are 0
// without a copy.
func (s *Store) Terms() (seen, limit uint64) { return s.local.startTerm, s.local.termLimit.Load() }

// TrackTerms makes the copy record a limit above all terms given to members, and returns after it
// is saved. The Store calls highest periodically, so members never wait for the copy.
func (s *Store) TrackTerms(ctx context.Context, highest func() uint64) error {
	s.local.highestTerm.Store(&highest)
	return s.local.save(ctx)
}

// raiseTermLimit requests a save if the highest term is close to the limit.
func (c *localCopy) raiseTermLimit() {
	if terms := c.highestTerm.Load(); c.saver != nil && terms != nil &&
		(*terms)()+backup.TermGap/2 >= c.termLimit.Load() {
		c.saver.Request()
	}
}

// Close saves what this node knows and stops saving.
func (s *Store) Close() {
	if s.local.saver != nil {
		s.local.stopping.Store(true)
		s.local.saver.Request()
		s.local.saver.Close()
	}
}

// syncPut saves the copy after a write that stored value at revision. If the write failed, syncPut
// returns its error, writeErr.
func (s *Store) syncPut(ctx context.Context, key string, value []byte, revision uint64, writeErr error) error {
	if writeErr != nil || s.local.saver == nil {
		return writeErr
	}
	s.mirror.put(key, entry{value: value, revision: revision})
	return copyError(key, s.local.save(ctx))
}

// syncDelete saves the copy after the deletion of a key that was at revision over. If the deletion
// failed, syncDelete returns its error, writeErr.
func (s *Store) syncDelete(ctx context.Context, key string, over uint64, writeErr error) error {
	if writeErr != nil || s.local.saver == nil {
		return writeErr
	}
	deleted, err := s.readAfter(ctx, key, over)
	if err == nil {
		s.mirror.put(key, deleted)
		err = s.local.save(ctx)
	}
	return copyError(key, err)
}

// readAfter reads a key that was changed after revision over. It retries while the answer has that
// revision or an older one, which can come from a follower or a leader that was replaced.
func (s *Store) readAfter(ctx context.Context, key string, over uint64) (entry, error) {
	ctx, cancel := s.rt.WithTimeout(ctx, readTimeout)
	defer cancel()
	for {
		msg, err := s.client.Last(ctx, Bucket, key)
		if err != nil {
			return entry{}, err
		}
		if msg.Sequence > over {
			deleted := msg.Header.Get(operationHeader) != ""
			return entry{value: msg.Data, revision: msg.Sequence, deleted: deleted, stored: msg.Time}, nil
		}
		select {
		case <-ctx.Done():
			return entry{}, fmt.Errorf("revision %d was read after its deletion: %w", msg.Sequence, ctx.Err())
		case <-s.rt.After(readAgainAfter):
		}
	}
}

func copyError(key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("key %s is stored, but not in the copy on this node's disk: %w; write it again", key, err)
}

// backupState returns the known keys as a backup, and the number of its last change.
func (m *mirror) backupState() (s backup.State, changes uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s = backup.State{Created: m.created, Revision: m.revision, Keys: make(map[string]backup.Key, len(m.keys))}
	for key, h := range m.keys {
		s.Keys[key] = backup.Key{Value: h.value, Revision: h.revision, Deleted: h.deleted, Stored: h.stored}
	}
	return s, m.changes
}

// load adds the keys of the bucket that was created at the given time.
func (m *mirror) load(keys map[string]backup.Key, last uint64, created time.Time) {
	for name, key := range keys {
		m.put(name, entryOf(key))
	}
	m.advance(last)
	m.setCreated(created)
}
