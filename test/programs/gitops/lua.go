// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// assess runs a script of Argo CD for the health of an object, in the interpreter of Argo CD and with the libraries that
// it opens by default, apart from its own os. Argo CD's package for this needs a module that its releases do not have.
func assess(script string, object map[string]any) (string, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for _, library := range []struct {
		name string
		open lua.LGFunction
	}{{lua.LoadLibName, lua.OpenPackage}, {lua.BaseLibName, lua.OpenBase}, {lua.TabLibName, lua.OpenTable}} {
		call := lua.P{Fn: state.NewFunction(library.open), Protect: true}
		if err := state.CallByParam(call, lua.LString(library.name)); err != nil {
			return "", err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	state.SetContext(ctx)
	state.SetGlobal("obj", value(state, object))
	if err := state.DoString(script); err != nil {
		return "", err
	}
	result, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		return "", fmt.Errorf("the script returns a %s and no table", state.Get(-1).Type())
	}
	health := lua.LVAsString(result.RawGetString("status"))
	if !slices.Contains([]string{"Healthy", "Progressing", "Degraded", "Suspended"}, health) {
		return "", fmt.Errorf("%q is no health of Argo CD", health)
	}
	return health + ": " + lua.LVAsString(result.RawGetString("message")), nil
}

// value converts a value of an object.
func value(state *lua.LState, v any) lua.LValue {
	switch v := v.(type) {
	case bool:
		return lua.LBool(v)
	case string:
		return lua.LString(v)
	case int64:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	case []any:
		table := state.CreateTable(len(v), 0)
		for _, element := range v {
			table.Append(value(state, element))
		}
		return table
	case map[string]any:
		table := state.CreateTable(0, len(v))
		for key, element := range v {
			table.RawSetString(key, value(state, element))
		}
		return table
	default:
		return lua.LNil
	}
}
