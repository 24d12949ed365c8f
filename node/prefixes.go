package node

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"troupe/control"
	"troupe/messages"
)

// Operators name adapters and tenants, and KV blocks depend on the revision of the one and the salt of the other.

// modelPins returns the pinned prefixes of a model as its replicas know them, with the present revisions of adapters and
// the salts of tenants, and a number that changes with them. It leaves out those of an adapter that is not
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
			n.cfg.Log.Warn().Err(err).Str("pin", p.GetName()).Msg("pin passed over")
			continue
		}
		all = append(all, p)
	}
	return version + n.catalogue.Revision() + secret, all
}

// adapterRevision is the present revision of an adapter; "" of none.
func (n *Node) adapterRevision(model, adapter string) (string, error) {
	key := n.catalogue.Key(model, adapter)
	if adapter != "" && key == "" {
		return "", control.Refuse(messages.Reason_REASON_NOT_FOUND,
			fmt.Sprintf("model %q has no adapter %q; adapters.list names those there are", model, adapter))
	}
	return key, nil
}

// adapterHint is why a model is not there, or how its name is said where it is an adapter's, which inference takes for a model.
func (n *Node) adapterHint(model string, err error) error {
	a, _ := n.FindAdapter(model, func(*messages.AdapterSpec) bool { return true })
	if a == nil {
		return err
	}
	return control.Refuse(messages.Reason_REASON_NOT_FOUND,
		fmt.Sprintf("%s is an adapter; send \"model\": %q, \"adapter\": %q", model, a.GetModel(), a.GetName()))
}
