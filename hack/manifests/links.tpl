## Links of interfaces

The ENA driver counts on the node what EC2 drops because the instance exceeds an allowance of its type, and node_exporter reads the counters
with `--collector.ethtool`. `multieni_interface_info` says to which NodeENI a link belongs, by the MAC address that `node_network_info` of
node_exporter has as well:

```promql
sum by (node, nodeeni) (
  rate(node_ethtool_bw_in_allowance_exceeded[5m])
  * on (instance, device) group_left (address) node_network_info
  * on (address) group_left (node, nodeeni)
    max by (address, node, nodeeni) (label_replace(multieni_interface_info, "address", "$1", "mac", "(.+)"))
)
```

Other counters are `bw_out_`, `pps_`, `conntrack_` and `linklocal_allowance_exceeded`, and `conntrack_allowance_available` from version 2.8.1
of the driver on. All restart at zero with the driver. Connections are tracked for the whole instance, so each of its links has the same
number. A link that is in a pod (`HostDevice`) or that a program in user space drives is not among them. The dashboard has two panels, and
an alert is [MultieniConnectionsDropped](runbook.md#multieniconnectionsdropped).

The metric has one series for each attached interface, and only the leader has it: 20,000 series, about 3 MB in a scrape, with 10,000 nodes of
two interfaces. To do without, drop it in your ServiceMonitor:
`metricRelabelings: [{action: drop, sourceLabels: [__name__], regex: multieni_interface_info}]`.

