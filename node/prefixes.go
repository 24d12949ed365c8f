package node

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"troupe/control"
	"troupe/messages"
)

// Commands name adapters and tenants. The names of KV blocks depend on the adapter's revision and
// the tenant's salt.

// modelPins returns the pinned prefixes of a model with the current revisions of adapters and the
// salts of tenants, and a version that changes with them. It leaves out pins whose adapter is not
// registered.
func (n *Node) modelPins(model string) (version uint64, all []*messages.PinnedPrefix) {
	version, stored := n.pins.of(model)
	if version == 0 {
		return 0, nil
	}
	_, secret := n.secret.get()
	for _, p := range stored {
		p = proto.CloneOf(p)
		if p.GetAdapter() != "" {
			if p.Adapter = n.catalogue.Key(model, p.GetAdapter()); p.Adapter == "" {
				continue
			}
		}
		var err error
		if p.CacheSalt, err = n.salt(p.GetTenant(), ""); err != nil {
			n.cfg.Log.Warn().Err(err).Str("pin", p.GetName()).Msg("pin skipped")
			continue
		}
		all = append(all, p)
	}
	return version + n.catalogue.Revision() + secret, all
}

// adapterRevision returns the catalogue key of an adapter's current revision; "" for no adapter.
func (n *Node) adapterRevision(model, adapter string) (string, error) {
	key := n.catalogue.Key(model, adapter)
	if adapter != "" && key == "" {
		return "", control.Refuse(messages.Reason_REASON_NOT_FOUND,
			fmt.Sprintf("model %q has no adapter %q; adapters.list names them", model, adapter))
	}
	return key, nil
}

// adapterHint returns err, or a better error if the name of the model is that of an adapter:
// requests accept adapters as models, commands do not.
func (n *Node) adapterHint(model string, err error) error {
	a, _ := n.FindAdapter(model, func(*messages.AdapterSpec) bool { return true })
	if a == nil {
		return err
	}
	return control.Refuse(messages.Reason_REASON_NOT_FOUND,
		fmt.Sprintf("%s is an adapter; send \"model\": %q, \"adapter\": %q", model, a.GetModel(), a.GetName()))
}
