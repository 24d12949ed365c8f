package natsd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats-server/v2/conf"
	"github.com/nats-io/nats-server/v2/server"
)

// userSections are the parts of a nats-server's configuration that say who its users are.
var userSections = []string{"authorization", "accounts", "no_auth_user", "system_account", "operator", "resolver", "resolver_preload"}

// LoadUsers reads who may use a server, and for what: the authorization or accounts of a nats-server's configuration file. The options hold
// nothing else, for the server's other options to be set in. No file: everybody may do everything.
func LoadUsers(file string) (*server.Options, error) {
	if file == "" {
		return &server.Options{}, nil
	}
	parts, err := conf.ParseFileWithChecks(file)
	if err != nil {
		return nil, fmt.Errorf("NATS users: %w", redact(file, err))
	}
	for part, value := range parts {
		variable, ok := value.(interface{ IsUsedVariable() bool })
		if !slices.Contains(userSections, strings.ToLower(part)) && (!ok || !variable.IsUsedVariable()) {
			return nil, fmt.Errorf("NATS users: %s has %s, which is not about users; only %s can be in it", file, part, strings.Join(userSections, ", "))
		}
	}
	opts, err := server.ProcessConfigFile(file)
	if err != nil {
		return nil, fmt.Errorf("NATS users: %w", redact(file, err))
	}
	if len(opts.Users)+len(opts.Nkeys)+len(opts.TrustedOperators) == 0 && opts.Username == "" && opts.Authorization == "" {
		return nil, fmt.Errorf("NATS users: %s has none, so that everybody could connect; list them under authorization", file)
	}
	return opts, nil
}
