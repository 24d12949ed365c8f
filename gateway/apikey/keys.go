package apikey

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"troupe/internal/reload"
	"troupe/messages"
)

// Key is an API key and its permissions.
type Key struct {
	Name   string
	Admin  bool   // may also load and unload adapters, and see the state of all models
	Tenant string // keys of one tenant share cached prefixes; default: Name
	// MaxPriority is the highest class that a request may have. Unspecified means any.
	MaxPriority messages.PriorityClass
	Weight      float64 // share of a replica among waiting keys; default 1
	Limits      Limits
	hash        [sha256.Size]byte
	models      []string // patterns; nil: all models and adapters
}

const (
	minWeight = 0.01
	maxWeight = 100.0
)

// Limits bound what a key may use in the cluster. Zero means no limit.
type Limits struct {
	Requests          int64 `yaml:"requests"` // in flight
	Tokens            int64 `yaml:"tokens"`   // in flight: prompt tokens plus max_tokens of every choice
	RequestsPerMinute int64 `yaml:"requests_per_minute"`
	TokensPerMinute   int64 `yaml:"tokens_per_minute"` // prompt and output
}

// Keys is the set of keys in a file. It is safe for concurrent use.
type Keys struct{ file *reload.Value[[]Key] }

// Open reads a key file. Later changes of the file take effect automatically.
func Open(file string, log zerolog.Logger) (*Keys, error) {
	opened := false
	read := func() ([]Key, error) {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		keys, err := parse(content)
		if err == nil && len(keys) == 0 && !opened {
			err = errNoKeys // later, an empty list revokes the last key
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		opened = true
		log.Info().Str("file", file).Int("keys", len(keys)).Msg("API keys loaded")
		return keys, nil
	}
	failed := func(err error) { log.Error().Err(err).Msg("changed API keys rejected") }
	value, err := reload.New(read, failed, file)
	if err != nil {
		return nil, err
	}
	return &Keys{value}, nil
}

// Find returns the key with a secret. The lookup takes the same time for every
// wrong secret, however similar it is to a right one.
func (k *Keys) Find(secret string) (found Key, ok bool) {
	sum := sha256.Sum256([]byte(secret))
	for _, key := range k.file.Get() {
		if subtle.ConstantTimeCompare(sum[:], key.hash[:]) == 1 {
			found, ok = key, true
		}
	}
	return found, ok
}

// Contains reports whether a key that Find returned is still in the file.
func (k *Keys) Contains(key Key) bool {
	return slices.ContainsFunc(k.file.Get(), func(known Key) bool { return known.hash == key.hash })
}

// OnChange registers a function that is called after each change of the file, with an error if the
// file was rejected. The function must not block.
func (k *Keys) OnChange(f func(error)) { k.file.OnChange(f) }

// Allows reports whether a key may use a model.
func (k Key) Allows(model string) bool {
	return k.models == nil || slices.ContainsFunc(k.models, func(pattern string) bool {
		return !strings.Contains(pattern, ":") && matchPattern(pattern, model)
	})
}

// AllowsAdapter reports whether a key may use an adapter of a model. A pattern "model:adapter" must
// match both names. An entry without colon and wildcards must equal the adapter's name.
func (k Key) AllowsAdapter(model, adapter string) bool {
	return k.models == nil || slices.ContainsFunc(k.models, func(pattern string) bool {
		of, name, full := strings.Cut(pattern, ":")
		if full {
			return matchPattern(of, model) && matchPattern(name, adapter)
		}
		return pattern == adapter && !strings.ContainsAny(pattern, "*?[\\")
	})
}

// matchPattern reports whether a name matches a valid pattern.
func matchPattern(pattern, name string) bool {
	ok, _ := path.Match(pattern, name)
	return ok
}

// Generate creates a key and its entry for the key file, which contains only the key's hash.
// Without models, the key allows all.
func Generate(name string, models []string, admin bool) (secret, line string, err error) {
	var random [32]byte
	_, _ = rand.Read(random[:]) // cannot fail
	secret = "sk-" + base64.RawURLEncoding.EncodeToString(random[:])
	line = fmt.Sprintf("  - {name: %q, sha256: %x", name, sha256.Sum256([]byte(secret)))
	for i, m := range models {
		lead := ", "
		if i == 0 {
			lead = ", models: ["
		}
		line += fmt.Sprintf("%s%q", lead, m)
	}
	if len(models) > 0 {
		line += "]"
	}
	if admin {
		line += ", admin: true"
	}
	line += "}"
	_, err = parse([]byte("keys:\n" + line + "\n"))
	return secret, line, err
}

// All returns the keys in the order of the file.
func (k *Keys) All() []Key { return k.file.Get() }
