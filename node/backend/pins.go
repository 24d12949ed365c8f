package backend

import (
	"context"
	"errors"
	"fmt"

	"troupe/cluster/store"
	"troupe/control"
	"troupe/gateway/openai"
	"troupe/messages"
)

// PinStore is the part of the store that holds pins.
type PinStore interface {
	PutPin(ctx context.Context, pin *messages.PinnedPrefix) error
	DeletePin(ctx context.Context, name string) error
}

// Encoder turns prompts into tokens.
type Encoder interface {
	CheckPrefix(ctx context.Context, model string, tokens []uint32) error
	EncodePrefix(ctx context.Context, model, prompt string, turns []openai.Message) ([]uint32, error)
}

// Prefix implements control.Backend.
func (k *KVControl) Prefix(ctx context.Context,
	of *messages.KvPinRequest) (tokens []uint32, blockTokens int, err error) {
	d, err := k.Deployment(ctx, of.GetModel())
	if err != nil {
		return nil, 0, k.Prefixes.hint(of.GetModel(), err)
	}
	if _, err := k.Prefixes.Revision(of.GetModel(), of.GetAdapter()); err != nil {
		return nil, 0, err
	}
	turns := make([]openai.Message, len(of.GetMessages()))
	for i, m := range of.GetMessages() {
		turns[i] = openai.Message{Role: m.GetRole(), Content: m.GetContent()}
	}
	if tokens = of.GetTokens(); len(tokens) > 0 {
		err = k.Gateway.CheckPrefix(ctx, of.GetModel(), tokens)
	} else {
		tokens, err = k.Gateway.EncodePrefix(ctx, of.GetModel(), of.GetPrompt(), turns)
	}
	if wrong := (*openai.Error)(nil); errors.As(err, &wrong) {
		err = control.Refuse(wrong.Reason, wrong.Message)
	}
	return tokens, int(d.GetSpec().GetBlockTokens()), err
}

// Pin implements control.Backend.
func (k *KVControl) Pin(ctx context.Context, pin *messages.PinnedPrefix) error {
	err := k.Store.PutPin(ctx, pin)
	if err == nil {
		k.Publish("kv.pinned", pin.GetName(), fmt.Sprintf("%d blocks of %s", pin.GetBlocks(), pin.GetModel()))
	}
	return err
}

// Unpin implements control.Backend.
func (k *KVControl) Unpin(ctx context.Context, name string) error {
	err := k.Store.DeletePin(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return control.Refuse(messages.Reason_REASON_NOT_FOUND,
			fmt.Sprintf("no prefix is pinned as %q; kv.stats names the pins", name))
	}
	if err == nil {
		k.Publish("kv.unpinned", name, "its blocks can be evicted again")
	}
	return err
}

// Pins implements control.Backend.
func (k *KVControl) Pins() []*messages.PinnedPrefix {
	_, all := k.Prefixes.Pins.Of("")
	return all
}
