// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"encoding/json"
	"strings"
	"time"
	"unicode"
)

// tokenRecord records the use of a client token.
type tokenRecord struct {
	Fingerprint string    `json:"fingerprint"`
	IDs         []string  `json:"ids"`
	Burnt       bool      `json:"burnt"`
	Expires     time.Time `json:"expires"`
}

// tokenExpiry forgets the use of a client token at a time, unless the token was used again.
type tokenExpiry struct {
	At  time.Time `json:"at"`
	Key string    `json:"key"`
	IDs []string  `json:"ids"`
}

// maxTokenLength is the largest number of ASCII characters of an action's client token (EC2 API reference,
// "ClientToken" of RunInstances, CreateNetworkInterface and CreateLaunchTemplate).
func maxTokenLength(action string) int {
	if strings.HasPrefix(action, "CreateLaunchTemplate") {
		return 128
	}
	return 64
}

// replay looks up a client token. It returns the resource that the same request created before, or nil if the token is
// new.
func (m *Model) replay(action, token string, request any) (*tokenRecord, error) {
	known, ok := m.tokens[action+"|"+token]
	isASCII := !strings.ContainsFunc(token, func(r rune) bool { return r > unicode.MaxASCII })
	switch {
	case len(token) > maxTokenLength(action) || !isASCII:
		return nil, invalidValue("Value (%s) for parameter clientToken is invalid: it can have up to %d ASCII characters",
			token, maxTokenLength(action))
	case token == "" || !ok:
		return nil, nil
	case known.Burnt || known.Fingerprint != fingerprint(request):
		return nil, refuse("IdempotentParameterMismatch",
			"The client token %q was used by a request with other parameters, or for something that is gone", token)
	}
	return known, nil
}

// remember stores the resource that a request with a client token created.
func (m *Model) remember(action, token string, request any, ids []string) {
	if token == "" {
		return
	}
	key := action + "|" + token
	for _, id := range ids {
		m.tokenOf[id] = key
	}
	memory := m.behavior.TokenMemory
	if memory == 0 {
		memory = 24 * time.Hour
	}
	expires := m.now().Add(memory)
	m.tokens[key] = &tokenRecord{Fingerprint: fingerprint(request), IDs: ids, Expires: expires}
	m.tokenExpiries = append(m.tokenExpiries, tokenExpiry{At: expires, Key: key, IDs: ids})
}

func (m *Model) forgetToken(due tokenExpiry) {
	if record := m.tokens[due.Key]; record != nil && record.Expires.Equal(due.At) {
		delete(m.tokens, due.Key)
	}
	for _, id := range due.IDs {
		delete(m.tokenOf, id)
	}
}

// burn handles the deletion of the resource that a token created.
func (m *Model) burn(id string) {
	key, ok := m.tokenOf[id]
	if !ok {
		return
	}
	delete(m.tokenOf, id)
	if record := m.tokens[key]; record != nil {
		record.Burnt = true
		if m.behavior.ForgetTokenOnDelete {
			delete(m.tokens, key)
		}
	}
}

// fingerprint identifies the parameters of a request. The caller must omit the token.
func fingerprint(request any) string {
	// Requests are structs of strings, numbers and lists: Marshal cannot fail.
	text, _ := json.Marshal(request)
	return string(text)
}
