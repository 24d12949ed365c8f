package recovery

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/cluster/backup"
	"troupe/cluster/bucket"
	"troupe/cluster/members"
	"troupe/cluster/natsd"
	"troupe/cluster/store"
)

// inspectTimeout bounds the comparison of a store with the copy.
const inspectTimeout = time.Minute

// Load returns the copy of the desired state in a data folder, or nil if there is none. It sets a
// damaged file aside if the other one is valid.
func Load(dir string, log zerolog.Logger) (*backup.State, error) {
	if dir == "" {
		return nil, nil
	}
	known, damaged, err := backup.Load(dir)
	if err != nil {
		return nil, fmt.Errorf("data folder %s: %w", dir, err)
	}
	if len(damaged) > 0 {
		log.Error().Strs("files", damaged).Msg("damaged copy of the desired state set aside; using the other file")
		if err := backup.SetAside(damaged); err != nil {
			return nil, fmt.Errorf("data folder %s: %w", dir, err)
		}
	}
	return known, nil
}

// Start starts the NATS server of a node. connect are the options of the node's connection to it.
// known is the copy, nil if there is none; Start adds what a damaged store still has.
func Start(
	ctx context.Context, rt supervise.Runtime, cfg natsd.Config, connect []nats.Option, known *backup.State,
) (*natsd.Server, error) {
	if alone := cfg.ClusterListen == ""; alone && (known != nil || exists(filepath.Join(cfg.StoreDir, jetStream))) {
		if err := repair(ctx, rt, cfg, connect, known); err != nil {
			return nil, err
		}
	}
	s, err := natsd.Start(ctx, cfg)
	if cfg.ClusterListen == "" || !errors.Is(err, natsd.ErrStore) {
		return s, err
	}
	// The other servers of the cluster have what this server has lost.
	folder, aside := setAside(rt.Now(), cfg.StoreDir, filepath.Join(cfg.StoreDir, jetStream))
	if aside != nil {
		return nil, errors.Join(err, aside)
	}
	cfg.Log.Error().Err(err).Str("folder", folder).
		Msg("damaged JetStream files set aside; replicating from the other NATS servers")
	return natsd.Start(ctx, cfg)
}

// repair sets damaged files of the store aside, so that the store is restored from the copy.
func repair(
	ctx context.Context, rt supervise.Runtime, cfg natsd.Config, connect []nats.Option, known *backup.State,
) error {
	found, err := inspect(ctx, rt, cfg, connect, known)
	if err != nil || found.why == "" {
		return err
	}
	if found.lost && known == nil {
		return fmt.Errorf("the store in %s is damaged (%s) and has no copy; restore the folder from a backup, "+
			"or remove %s to start without deployments",
			cfg.StoreDir, found.why, strings.Join(found.folders, " and "))
	}
	if found.lost {
		known.Merge(found.have, found.last)
		if err := backup.Save(rt, cfg.StoreDir, known); err != nil {
			return err
		}
	}
	folder, err := setAside(rt.Now(), cfg.StoreDir, found.folders...)
	if err != nil {
		return fmt.Errorf("the store in %s is damaged (%s): %w", cfg.StoreDir, found.why, err)
	}
	cfg.Log.Error().Str("reason", found.why).Str("folder", folder).
		Msg("damaged store set aside; restoring it from the copy")
	return nil
}

// finding describes the damage of a store.
type finding struct {
	why     string // empty if the store is intact
	folders []string
	lost    bool // the loss includes desired state, not only leases
	have    map[string]backup.Key
	last    uint64
}

// inspect compares the files with the copy. It starts a server that only this process can connect
// to.
func inspect(
	ctx context.Context, rt supervise.Runtime, cfg natsd.Config, connect []nats.Option, known *backup.State,
) (finding, error) {
	ctx, cancel := rt.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	cfg.Offline = true
	server, err := natsd.Start(ctx, cfg)
	if errors.Is(err, natsd.ErrStore) {
		return finding{why: err.Error(), folders: []string{filepath.Join(cfg.StoreDir, jetStream)}, lost: true}, nil
	}
	if err != nil {
		return finding{}, err
	}
	defer server.Stop()
	conn, err := server.Connect(connect...)
	if err != nil {
		return finding{}, fmt.Errorf("connect to the embedded nats-server: %w", err)
	}
	defer conn.Close()
	client, err := bucket.NewClient(conn, rt)
	if err != nil {
		return finding{}, err
	}
	found, err := inspectState(ctx, client, cfg.StoreDir, known)
	if err == nil {
		err = found.inspectTerms(ctx, client, cfg.StoreDir, known)
	}
	if err != nil {
		return finding{}, fmt.Errorf("the store in %s cannot be read: %w; look for an earlier log line",
			cfg.StoreDir, err)
	}
	if found.why == "" && known != nil {
		err = raiseTerm(ctx, rt, client, &cfg, known)
	}
	return found, err
}

// raiseTerm raises the next term above the limit of the copy, unless the last given term is known
// for certain. After a kill or a power failure it is unknown, since unsynced or damaged files may
// lack the last terms.
func raiseTerm(
	ctx context.Context, rt supervise.Runtime, c bucket.Client, cfg *natsd.Config, known *backup.State,
) error {
	info, err := c.Info(ctx, members.Bucket)
	if errors.Is(err, jetstream.ErrStreamNotFound) || known.TermLimit == 0 {
		return nil // the revisions of a new bucket start above the limit
	}
	if err != nil {
		return err
	}
	last := info.State.LastSeq
	if known.Stopped && last == known.Term {
		return nil
	}
	from := max(last, known.TermLimit)
	known.TermLimit = from + backup.TermGap
	if err := backup.Save(rt, cfg.StoreDir, known); err != nil {
		return err
	}
	return members.RaiseTerms(ctx, c, from, rt, cfg.Log)
}

func inspectState(ctx context.Context, c bucket.Client, dir string, known *backup.State) (f finding, err error) {
	folders := streamFolders(dir, store.Bucket)
	_, err = c.Info(ctx, store.Bucket)
	if api := (*jetstream.APIError)(nil); errors.As(err, &api) {
		if len(folders) == 0 && (known == nil || known.Revision == 0) {
			return finding{}, nil // no store yet
		}
		return finding{why: "the bucket " + store.Bucket + ": " + err.Error(), folders: folders, lost: true}, nil
	}
	if err != nil {
		return finding{}, err
	}
	have, last, failed, err := store.ReadAll(ctx, c, store.Bucket)
	if err != nil {
		return finding{}, err
	}
	if known != nil {
		failed = append(failed, known.Losses(have, last)...)
	}
	if len(failed) == 0 {
		return finding{}, nil
	}
	return finding{
		why: "lost " + strings.Join(failed, ", "), folders: folders, lost: true, have: have, last: last,
	}, nil
}

// inspectTerms adds the files of leases if terms are lost.
func (f *finding) inspectTerms(ctx context.Context, c bucket.Client, dir string, known *backup.State) error {
	folders := streamFolders(dir, members.Bucket)
	info, err := c.Info(ctx, members.Bucket)
	api := (*jetstream.APIError)(nil)
	why := ""
	switch {
	case errors.As(err, &api):
		if len(folders) == 0 {
			return nil
		}
		why = "the bucket " + members.Bucket + ": " + err.Error()
	case err != nil:
		return err
	default:
		_, last, failed, err := store.ReadAll(ctx, c, members.Bucket)
		switch {
		case err != nil:
			return err
		case len(failed) > 0 || info.State.Lost != nil:
			why = "the bucket " + members.Bucket + " has lost " + strings.Join(append(failed, "leases"), ", ")
		case known != nil && last < known.Term:
			why = fmt.Sprintf("the bucket %s has lost terms up to %d", members.Bucket, known.Term)
		default:
			return nil
		}
	}
	f.why = strings.TrimPrefix(f.why+", "+why, ", ")
	f.folders = append(f.folders, folders...)
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
