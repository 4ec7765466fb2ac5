# Copyright The multieni Authors.
# SPDX-License-Identifier: Apache-2.0

"""Clients of boto3 that compare every answer with the shape that AWS publishes: whatever the shape lacks is a finding."""

import os
import re
import xml.etree.ElementTree as xml

import boto3

findings = []
answers = 0

# What the simulator answers on purpose beside the shape.
DELIBERATE = {("NetworkInterface.Status", "pending")}


def client(service):
    """A client at AWS_ENDPOINT_URL, in every version of boto3, that hands its answers to check."""
    c = boto3.client(service, endpoint_url=os.environ["AWS_ENDPOINT_URL"])
    c.meta.events.register("before-parse." + c.meta.service_model.service_id.hyphenize(), check)
    return c


def check(operation_model, response_dict, **_):
    global answers
    protocol = operation_model.service_model.metadata["protocol"]
    if protocol not in ("ec2", "query") or response_dict["status_code"] >= 300:
        return
    answers += 1
    root = xml.fromstring(response_dict["body"])
    if protocol == "query":
        root = next(child for child in root if local(child) != "ResponseMetadata")
    if operation_model.output_shape is not None:
        walk(operation_model.output_shape, root, operation_model.name, {"requestId"})


def local(element):
    return element.tag.rsplit("}", 1)[-1]


def walk(shape, element, path, besides=frozenset()):
    kind = shape.type_name
    if kind == "structure":
        members = {m.serialization.get("name", name): m for name, m in shape.members.items()}
        for child in element:
            name = local(child)
            if name in members:
                walk(members[name], child, f"{shape.name}.{name[0].upper()}{name[1:]}")
            elif name not in besides:
                findings.append(f"{path}: {shape.name} has no {name}")
    elif kind == "list":
        item = shape.member.serialization.get("name", "member")
        for child in element:
            if local(child) != item:
                findings.append(f"{path}: an element {local(child)}, not {item}")
            walk(shape.member, child, path)
    elif not fits(shape, element.text or "", path):
        findings.append(f"{path}: {element.text!r} is no {kind}")


def fits(shape, text, path):
    patterns = {
        "boolean": r"true|false",
        "integer": r"-?\d+",
        "long": r"-?\d+",
        "double": r"-?[\d.]+",
        "float": r"-?[\d.]+",
        "timestamp": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z",
    }
    if shape.type_name in patterns:
        return re.fullmatch(patterns[shape.type_name], text) is not None
    return not getattr(shape, "enum", None) or text in shape.enum or (path, text) in DELIBERATE
