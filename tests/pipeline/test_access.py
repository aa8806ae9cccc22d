"""Spark's own ports refuse clients without the secret, before they process a message."""

import socket

import pytest

from livejoin.pipeline.spark_driver import SparkDriver
from rig.spark_rpc import RESPONSE, ask, block, request

_LIMIT_S = 20


def test_the_driver_port_refuses_unauthenticated_clients(session: SparkDriver) -> None:
    port = int(session.spark().sparkContext.getConf().get("spark.driver.port") or 0)
    kind, response = ask(port, request(port, "nobody"))
    assert kind != RESPONSE
    assert b"nobody" not in response, response


def test_the_block_manager_port_refuses_unauthenticated_clients(session: SparkDriver) -> None:
    context = session.spark().sparkContext
    held = context.broadcast("a secret of somebody's")
    name = f"broadcast_{held._jbroadcast.id()}_piece0"
    port = int(context._jsc.sc().getExecutorMemoryStatus().keys().mkString("").split(":")[1])
    kind, response = ask(port, block(context.applicationId, name))
    assert kind != RESPONSE, response
    assert name.encode() not in response, response


@pytest.mark.parametrize("token", [b"", b"A\nswrong\n"])
def test_the_python_gateway_requires_its_token(session: SparkDriver, token: bytes) -> None:
    gateway = session.spark().sparkContext._gateway
    assert gateway is not None
    port = gateway.gateway_parameters.port
    with socket.create_connection(("127.0.0.1", port), _LIMIT_S) as connection:
        connection.sendall(token + b"c\nz:java.lang.System\ncurrentTimeMillis\ne\n")
        response = connection.recv(4096)
    assert b"!yL" not in response, response  # an answer with a long
    assert response.startswith(b"!x") or response == b"", response
