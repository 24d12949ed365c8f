package backend

import (
	"fmt"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"troupe/control"
	"troupe/control/catalogue"
	"troupe/messages"
	"troupe/node/stored"
)

// Prefixes resolves the names of adapters and tenants in commands. The hashes of KV blocks depend
// on the adapter's revision and the tenant's salt.
type Prefixes struct {
	Pins      *stored.Pins
	Secret    *stored.Secret
	Catalogue *catalogue.Catalogue
	Log       zerolog.Logger
}

// Pinned returns the pinned prefixes of a model, with the current revisions of adapters and the
// salts of tenants, and a version that changes when they do. It omits pins whose adapter is not
// registered.
func (p *Prefixes) Pinned(model string) (version uint64, all []*messages.PinnedPrefix) {
	version, pins := p.Pins.Of(model)
	if version == 0 {
		return 0, nil
	}
	_, secret := p.Secret.Get()
	for _, pin := range pins {
		pin = proto.CloneOf(pin)
		if pin.GetAdapter() != "" {
			if pin.Adapter = p.Catalogue.Key(model, pin.GetAdapter()); pin.Adapter == "" {
				continue
			}
		}
		var err error
		if pin.CacheSalt, err = p.Secret.Salt(pin.GetTenant(), ""); err != nil {
			p.Log.Warn().Err(err).Str("pin", pin.GetName()).Msg("pin skipped")
			continue
		}
		all = append(all, pin)
	}
	return version + p.Catalogue.Revision() + secret, all
}

// Revision returns the catalogue key of an adapter's current revision; "" for no adapter.
func (p *Prefixes) Revision(model, adapter string) (string, error) {
	key := p.Catalogue.Key(model, adapter)
	if adapter != "" && key == "" {
		return "", control.Refuse(messages.Reason_REASON_NOT_FOUND,
			fmt.Sprintf("model %q has no adapter %q; adapters.list names them", model, adapter))
	}
	return key, nil
}

// hint returns err, or a more helpful error if the name of the model is that of an adapter.
// Requests accept an adapter's name as the model, but commands do not.
func (p *Prefixes) hint(model string, err error) error {
	a, _ := p.Catalogue.Find(model, func(*messages.AdapterSpec) bool { return true })
	if a == nil {
		return err
	}
	return control.Refuse(messages.Reason_REASON_NOT_FOUND,
		fmt.Sprintf("%s is an adapter; send \"model\": %q, \"adapter\": %q", model, a.GetModel(), a.GetName()))
}
