"""gRPC without generated code: `shop_grpc.py PORT sync|aio`, methods of one servicer; it calls itself."""

import asyncio
import sys
import threading
from concurrent import futures

import grpc
from work import burn


class Shop:
    def GetPrice(self, request, context):  # noqa: N802
        burn()
        return b"3"

    def ListItems(self, request, context):  # noqa: N802
        for _ in range(3):
            burn()
            yield b"cup"


class AsyncShop:
    async def GetPrice(self, request, context):  # noqa: N802
        burn()
        return b"3"

    async def ListItems(self, request, context):  # noqa: N802
        for _ in range(3):
            burn()
            yield b"cup"


class AuditInterceptor(grpc.ServerInterceptor):
    def intercept_service(self, continuation, details):
        burn()
        return continuation(details)


def handlers(servicer):
    methods = {
        "GetPrice": grpc.unary_unary_rpc_method_handler(servicer.GetPrice),
        "ListItems": grpc.unary_stream_rpc_method_handler(servicer.ListItems),
    }
    return grpc.method_handlers_generic_handler("shop.Shop", methods)


def call(port):
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        while True:
            channel.unary_unary("/shop.Shop/GetPrice")(b"", wait_for_ready=True)
            list(channel.unary_stream("/shop.Shop/ListItems")(b"", wait_for_ready=True))


async def serve(port):
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((handlers(AsyncShop()),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    port, style = sys.argv[1:]
    threading.Thread(target=call, args=(port,), daemon=True).start()
    if style == "aio":
        asyncio.run(serve(port))
    server = grpc.server(futures.ThreadPoolExecutor(2), interceptors=[AuditInterceptor()])
    server.add_generic_rpc_handlers((handlers(Shop()),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    server.wait_for_termination()
