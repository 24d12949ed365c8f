package residency

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"troupe/core/loadsource"
	core "troupe/core/residency"
	"troupe/core/verify"
	"troupe/engine"
)

// load is one load of weights. It tries the sources in the order of their expected times, until one has weights
// whose canary gives the recorded tokens. The last one is the folder, read as it is.
type load struct {
	store *Store
	from  core.Source
	use   *ImageUse
	check *verify.Load

	why      string // why the next source is used
	image    bool   // the image in host memory was tried
	outside  bool   // no source outside host memory is left
	last     bool   // the folder was tried
	verified time.Duration
	key      verify.Key        // of the weights that were checked last
	versions map[string]string // by source: what it had when its weights were dropped
}

// candidate is weights on the device that are not verified yet.
type candidate struct {
	engine.Weights
	origin  Origin
	image   *engine.Image // that the load has filled; nil: none
	sources []verify.Source
	drop    func(source, why string) // drops the image of a source
	// versions has what each source has, by name.
	versions map[string]string
}

// loadChecked loads weights from the best source that has those of the model, and checks their digest.
func (s *Store) loadChecked(ctx context.Context, from core.Source, use *ImageUse) (engine.Weights, Origin, error) {
	l := &load{store: s, from: from, use: use, check: verify.NewLoad(), why: "no other source has it",
		versions: make(map[string]string)}
	for {
		c, err := l.next(ctx)
		if err == nil {
			err = l.verify(ctx, c)
		} else {
			err = l.exhausted(err)
		}
		if rejected := (*rejectedError)(nil); errors.As(err, &rejected) {
			l.why = rejected.Error()
			continue
		}
		if err != nil {
			if use.Filling() {
				use.Failed(err)
			}
			return nil, Origin{}, err
		}
		if c.image != nil {
			use.Filled(c.image)
		}
		c.origin.Verify = l.verified
		return c.Weights, c.origin, nil
	}
}

// next loads weights from the next source that can be loaded from.
func (l *load) next(ctx context.Context) (candidate, error) {
	for _, from := range []func(context.Context) (candidate, error){
		l.fromHostFirst, l.fromOutside, l.fromHostLast,
	} {
		c, err := from(ctx)
		if err == nil || noSourceHelps(ctx, err) {
			return c, err
		}
		if !errors.Is(err, errNoSource) {
			l.why = err.Error()
		}
	}
	return l.fromFolder(ctx)
}

// errNoSource is the error of a kind of source that does not have the weights, or was tried.
var errNoSource = errors.New("no such source")

// hostImage returns the image in host memory, if it can still be tried.
func (l *load) hostImage() *engine.Image {
	if l.image || l.check.Doubts(FromHostCache) {
		return nil
	}
	return l.use.Image()
}

// fromHostFirst loads from the image in host memory if that is the fastest source.
func (l *load) fromHostFirst(ctx context.Context) (candidate, error) {
	image := l.hostImage()
	if image == nil {
		return candidate{}, errNoSource
	}
	first, why := l.store.hostFirst(image, l.from, l.check)
	if !first {
		return candidate{}, errNoSource
	}
	return l.fromHost(ctx, image, why)
}

// fromHostLast loads from the image in host memory if the other sources, of which it was one, did not have its
// content.
func (l *load) fromHostLast(ctx context.Context) (candidate, error) {
	if image := l.hostImage(); image != nil {
		return l.fromHost(ctx, image, l.why)
	}
	return candidate{}, errNoSource
}

func (l *load) fromHost(ctx context.Context, image *engine.Image, why string) (candidate, error) {
	l.image = true
	began := time.Now()
	w, err := l.store.loadImage(ctx, l.from, l.use, image)
	if err == nil {
		l.store.speeds.Observe(l.store.hostPath(), image.Info.WeightBytes, time.Since(began))
	}
	return candidate{
		Weights: w, origin: Origin{
			Source: FromHostCache, Why: why, Floor: l.store.speeds.floor(l.store.hostPath(), image.Info.WeightBytes),
		},
		sources:  []verify.Source{{Name: FromHostCache, Doubtful: true}},
		drop:     func(_, why string) { l.use.Damaged(errors.New(why)) },
		versions: map[string]string{FromHostCache: partsVersion(image)},
	}, err
}

func (l *load) fromOutside(ctx context.Context) (candidate, error) {
	if l.outside {
		return candidate{}, errNoSource
	}
	var host *hostSource
	if image := l.hostImage(); image != nil {
		host = l.store.hostSource(l.use, l.from)
	}
	found, because := l.store.sourcesOf(ctx, l.from, l.check, host)
	if len(found) == 0 {
		l.outside = true
		return candidate{}, errNoSource
	}
	if _, first := found[0].(*hostSource); first { // what seemed faster is suspected or gone
		for _, other := range found {
			_ = other.Close() // nothing was read
		}
		c, err := l.fromHost(ctx, host.image, because)
		if err == nil || noSourceHelps(ctx, err) {
			return c, err
		}
		l.why = err.Error()
		return l.fromOutside(ctx)
	}
	p := newParts(found)
	began := time.Now()
	w, image, err := l.store.loadParts(ctx, p, l.use)
	if only := p.only(); err == nil && only != nil {
		path := l.store.candidate(only, l.from.Path).Path
		l.store.speeds.Observe(path, p.image.Info.WeightBytes, time.Since(began))
	}
	c := candidate{Weights: w, origin: p.origin(because), image: image, sources: p.contributors(), drop: p.drop,
		versions: p.versions()}
	p.delivered(func(s ImageSource, bytes int64) {
		c.origin.Floor += l.store.speeds.floor(l.store.candidate(s, l.from.Path).Path, bytes)
	})
	l.image = l.image || err != nil && p.find(FromHostCache) != nil
	// The next attempt leaves out the sources that were rejected, but not the folder.
	l.outside = err != nil || !doubtful(c.sources)
	if closed := p.close(); err != nil {
		err = errors.Join(err, closed)
	}
	return c, err
}

func doubtful(all []verify.Source) bool {
	for _, s := range all {
		if s.Doubtful {
			return true
		}
	}
	return false
}

func (l *load) fromFolder(ctx context.Context) (candidate, error) {
	if l.last {
		return candidate{}, errNoSource
	}
	l.last = true
	began := time.Now()
	w, image, err := l.store.loadFolder(ctx, l.from, l.use)
	var floor time.Duration
	if err == nil {
		path, bytes := l.store.folderPath(l.from.Path), w.Info().WeightBytes
		l.store.speeds.Observe(path, bytes, time.Since(began))
		floor = l.store.speeds.floor(path, bytes)
	}
	return candidate{
		Weights: w, origin: Origin{Source: string(loadsource.Folder), Why: l.why, Floor: floor}, image: image,
		sources: []verify.Source{{Name: string(loadsource.Folder)}}, drop: func(string, string) {},
	}, err
}

// rejectedError is the error of weights that were dropped, so that the next source is used.
type rejectedError struct{ why string }

func (e *rejectedError) Error() string { return e.why }

// verify runs a canary, unless the store has no records, and carries out what follows. If the weights may
// not serve, it frees them.
func (l *load) verify(ctx context.Context, c candidate) error {
	s := l.store
	if s.canaries == nil {
		return nil
	}
	l.check.Loaded(c.sources...)
	l.key = s.CanaryKey(c)
	prompt := s.canaries.promptFor(l.key, c.Info())
	began := s.canaries.cfg.Now()
	tokens, err := s.runCanary(ctx, c, prompt)
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", l.from.Path, err), c.Free())
	}
	took := s.canaries.cfg.Now().Sub(began)
	l.verified += took
	got := verify.Record{Key: l.key, Prompt: prompt, Tokens: tokens, By: s.title() + ", from " + c.origin.Source}
	return l.perform(c, s.canaries.judge(l.check, l.key, got, !l.last, took))
}

// perform carries out the effects of a check, in order.
func (l *load) perform(c candidate, effects []verify.Effect) (err error) {
	s, why, freed := l.store, "", false
	for _, effect := range effects {
		switch e := effect.(type) {
		case verify.Drop:
			if !freed {
				freed, err = true, errors.Join(err, c.Free())
			}
			why = fmt.Sprintf("%s: %s", e.Source.Name, e.Why())
			l.versions[e.Source.Name] = c.versions[e.Source.Name]
			c.drop(e.Source.Name, e.Why())
			s.canaries.cfg.Publish("weights.rejected", s.title(), fmt.Sprintf("%s from %s: %s (%s)",
				cmp.Or(l.from.Model, l.from.Path), e.Source.Name, e.Why(), e.Recorded.By))
		case verify.Suspect:
			s.canaries.suspect(l.key.Revision, e.Source.Name, l.versions[e.Source.Name], e.Why())
		case verify.Next:
			err = errors.Join(err, &rejectedError{why})
		case verify.Fail:
			err = errors.Join(err, l.unverified(e, nil))
		case verify.Accept, verify.TestDevice: // the caller of the load tests the device for an Unverified
		default:
			panic(fmt.Sprintf("residency: unknown effect %T", effect))
		}
	}
	return err
}

// exhausted returns the error of a load that no source is left for.
func (l *load) exhausted(why error) error {
	rejections := l.check.Rejected()
	if len(rejections) == 0 || l.store.canaries == nil {
		return why
	}
	for _, effect := range l.check.Exhausted() {
		if e, ok := effect.(verify.Fail); ok {
			return l.unverified(e, why)
		}
	}
	return why
}

func (l *load) unverified(e verify.Fail, why error) error {
	return &Unverified{Path: l.from.Path, Device: l.store.title(), Key: l.key, Rejections: e.Rejections, Err: why}
}
