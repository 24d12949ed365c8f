package security

import (
	"errors"
	"net/url"
	"strings"

	"github.com/nats-io/nats.go"
)

// hidden stands for a secret.
const hidden = "xxxxx"

// WithoutSecrets returns comma-separated URLs of NATS servers without passwords and tokens, so that
// they can be shown.
func WithoutSecrets(urls string) string {
	all := strings.Split(urls, ",")
	for i, one := range all {
		if one = strings.TrimSpace(one); !strings.Contains(one, "://") {
			one = "nats://" + one
		}
		u, err := url.Parse(one)
		switch {
		case err != nil:
			all[i] = hidden // an invalid URL may contain a secret anywhere
		case u.User == nil:
		default:
			if _, named := u.User.Password(); named {
				u.User = url.UserPassword(u.User.Username(), hidden)
			} else {
				u.User = url.User(hidden) // a token
			}
			all[i] = u.String()
		}
	}
	return strings.Join(all, ",")
}

// Refused reports whether a NATS server has answered that it does not let this client in. Another try gives the same
// answer.
func Refused(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) ||
		errors.Is(err, nats.ErrNkeysNotSupported) ||
		errors.Is(err, nats.ErrSecureConnRequired) || errors.Is(err, nats.ErrSecureConnWanted)
}
