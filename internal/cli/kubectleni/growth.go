// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/api"
	prometheus "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/multieni/multieni/internal/core/report"
)

// daysQuery is the time until a gauge of subnets is 0 with the growth of the last day, in days. The result lacks
// subnets that do not fill up. The dashboard has the same query.
const daysQuery = "min by (subnet) (%[1]s) / (-deriv((min by (subnet) (%[1]s))[1d:10m]) * 86400 > 0)"

// addDays adds the days until each subnet is full, from the growth in a Prometheus server with the controller's
// metrics. EC2 has no history of it.
func addDays(ctx context.Context, address string, view *report.Subnets) error {
	connection, err := api.NewClient(api.Config{Address: address})
	if err != nil {
		return fmt.Errorf("--prometheus=%s: %w", address, err)
	}
	server, values := prometheus.NewAPI(connection), [3]map[string]float64{}
	for n, expression := range []string{
		"min by (subnet) (multieni_subnet_free_addresses)",
		fmt.Sprintf(daysQuery, "multieni_subnet_free_addresses"), fmt.Sprintf(daysQuery, "multieni_subnet_free_prefixes"),
	} {
		if values[n], err = query(ctx, server, expression); err != nil {
			return fmt.Errorf("ask the Prometheus server %s for the growth of subnets: %w", address, err)
		}
	}
	free, addressDays, prefixDays := values[0], values[1], values[2]
	for n := range view.Subnets {
		s := &view.Subnets[n]
		if _, known := free[s.ID]; known {
			s.Growth = &report.SubnetGrowth{AddressDays: addressDays[s.ID], PrefixDays: prefixDays[s.ID]}
		}
	}
	return nil
}

// query returns a value for each subnet.
func query(ctx context.Context, server prometheus.API, expression string) (map[string]float64, error) {
	result, _, _, err := server.Query(ctx, expression, time.Time{}, prometheus.WithTimeout(10*time.Second))
	if err != nil {
		return nil, err
	}
	vector, is := result.(model.Vector)
	if !is {
		return nil, fmt.Errorf("the answer is a %s, want a vector", result.Type())
	}
	values := map[string]float64{}
	for _, sample := range vector {
		values[string(sample.Metric["subnet"])] = float64(sample.Value)
	}
	return values, nil
}
