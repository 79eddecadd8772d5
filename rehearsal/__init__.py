"""A rehearsal: a local AWS and a local Kubernetes that the real templates of any CDK EKS app are deployed into.

The rooms, and the direction in which they may know each other::

    cli -> story -> report
             |
           cloud -> aws -> kubernetes, compute -> tools, processes

Nothing here imports the product (``configuration``, ``constructs``, ``charts``, ``stacks``): a rehearsal sees what the
CDK CLI gives it, as AWS would.
"""
