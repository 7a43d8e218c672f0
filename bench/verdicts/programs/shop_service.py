"""The Django shop of the corpus as a WSGI application.

It runs under gunicorn with sync workers. Each worker fills its own in-memory database when it loads the
application.
"""

import logging
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "corpus" / "programs"))

import shop
from django.core.wsgi import get_wsgi_application

logging.disable(logging.CRITICAL)
shop.fill(random.Random(1))
application = get_wsgi_application()
