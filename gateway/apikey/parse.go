package apikey

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/goccy/go-yaml"

	"troupe/core/kv"
	"troupe/messages"
)

// minKeyLength is the minimum length of a key in characters, so that it is hard to guess.
const minKeyLength = 16

// entry is a key in the file.
type entry struct {
	Name   string    `yaml:"name"`
	Key    string    `yaml:"key"`
	SHA256 string    `yaml:"sha256"`
	Models *[]string `yaml:"models"`
	Admin  bool      `yaml:"admin"`

	Tenant      string  `yaml:"tenant"`
	MaxPriority string  `yaml:"max_priority"`
	Weight      float64 `yaml:"weight"`
	Limits      Limits  `yaml:"limits"`
}

var errNoKeys = errors.New(`it has no keys; create one with "troupe keys new"`)

// parse parses the content of a key file. The list of keys may be empty, but not absent. Errors name
// positions but never quote the content, which may be a key.
func parse(content []byte) ([]Key, error) {
	var f struct {
		Keys []entry `yaml:"keys"`
	}
	if err := yaml.NewDecoder(bytes.NewReader(content), yaml.Strict()).Decode(&f); err != nil &&
		!errors.Is(err, io.EOF) {
		return nil, syntaxError(err)
	}
	if f.Keys == nil {
		return nil, errNoKeys
	}
	keys, names, sums := make([]Key, len(f.Keys)), map[string]int{}, map[[sha256.Size]byte]int{}
	for i, e := range f.Keys {
		k, err := e.key()
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
		if other, ok := names[k.Name]; ok {
			return nil, fmt.Errorf("keys %d and %d have the same name; give each its own", other, i+1)
		}
		if other, ok := sums[k.hash]; ok {
			return nil, fmt.Errorf("keys %d and %d are the same; give each its own", other, i+1)
		}
		names[k.Name], sums[k.hash], keys[i] = i+1, i+1, k
	}
	return keys, nil
}

// syntaxError returns an error with the position of a YAML error.
func syntaxError(err error) error {
	position := "an unknown position"
	if known := (yaml.Error)(nil); errors.As(err, &known) && known.GetToken() != nil {
		p := known.GetToken().Position
		position = fmt.Sprintf("line %d, column %d", p.Line, p.Column)
	}
	return fmt.Errorf("syntax error at %s; expected under keys: a list of entries with name, key or sha256, "+
		"models, admin, tenant, max_priority, weight and limits", position)
}

func (e entry) key() (Key, error) {
	k := Key{
		Name:   e.Name,
		Admin:  e.Admin,
		Tenant: cmp.Or(e.Tenant, e.Name),
		Weight: cmp.Or(e.Weight, 1),
		Limits: e.Limits,
	}
	switch {
	case e.Name == "":
		return k, errors.New("name is missing; it identifies the key in logs")
	case e.Name == kv.SharedTenant && e.Tenant == "":
		return k, fmt.Errorf("a key named %s without a tenant would share cached prefixes with every client; "+
			"give it a tenant, or another name", e.Name)
	case (e.Key == "") == (e.SHA256 == ""):
		return k, errors.New("set either key or sha256")
	case e.Key != "" && len(e.Key) < minKeyLength:
		return k, fmt.Errorf(
			"key has %d characters and could be guessed; use at least %d, or create it with \"troupe keys new\"",
			len(e.Key), minKeyLength)
	case e.Key != "":
		k.hash = sha256.Sum256([]byte(e.Key))
	default:
		sum, err := hex.DecodeString(e.SHA256)
		if err != nil || len(sum) != len(k.hash) {
			return k, errors.New("sha256 must be 64 hexadecimal digits")
		}
		k.hash = [sha256.Size]byte(sum)
	}
	if k.hash == sha256.Sum256(nil) {
		return k, errors.New("sha256 is the hash of an empty key")
	}
	if err := e.readQuota(&k); err != nil {
		return k, err
	}
	if e.Models == nil {
		return k, nil
	}
	if k.models = *e.Models; len(k.models) == 0 {
		return k, errors.New("models is empty; list some, or leave it out to allow all")
	}
	for i, pattern := range k.models {
		model, adapter, _ := strings.Cut(pattern, ":")
		for _, part := range []string{model, adapter} {
			if _, err := path.Match(part, ""); err != nil {
				return k, fmt.Errorf("entry %d of models is not a valid pattern; an example is kjv-*", i+1)
			}
		}
	}
	return k, nil
}

// readQuota validates and sets the priority, weight and limits of a key.
func (e entry) readQuota(k *Key) error {
	if e.MaxPriority != "" {
		class, ok := messages.PriorityClassByName(e.MaxPriority)
		if !ok {
			return errors.New("max_priority must be batch, standard or interactive")
		}
		k.MaxPriority = class
	}
	if !(k.Weight >= minWeight && k.Weight <= maxWeight) {
		return fmt.Errorf("weight must be between %g and %g", minWeight, maxWeight)
	}
	if l := k.Limits; min(l.Requests, l.Tokens, l.RequestsPerMinute, l.TokensPerMinute) < 0 {
		return errors.New("limits must not be negative; leave a limit out for none")
	}
	return nil
}
